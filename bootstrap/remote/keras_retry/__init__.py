"""Starts a run again with the other Keras, if its script fails with the first one."""
