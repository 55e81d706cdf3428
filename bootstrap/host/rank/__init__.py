"""Becomes a rank on a host: `rank` runs the program, the others prepare its data and variables."""
