"""Detects that a run makes no progress, and which line of which rank the others wait for."""
