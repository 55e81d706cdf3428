"""The state of a run that all of its programs share: files, processes, lease, limits and rights."""
