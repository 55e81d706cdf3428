"""Failures of a run: what to do about one, and how often the run starts again."""
