"""The files of a run in its bucket: during the run, at its end, and back from there."""
