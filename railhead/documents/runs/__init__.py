"""The documents of a run: in its folder on the hosts, in its results and in its bucket."""
