"""Becomes a rank on a host: `rank` runs the program, `rank_*` prepare its data and variables.
`heartbeats` counts, on the chief, how long a host's ranks have been silent."""
