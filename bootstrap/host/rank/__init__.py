"""The process of a rank: `rank` runs the program; the other modules prepare its data and
variables."""
