"""The attempts of a run: why one failed, whether the run starts again, and what a host needs for
that."""
