"""The files of a run in its bucket: uploads during the run and at its end, and downloads."""
