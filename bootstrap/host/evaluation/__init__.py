"""Checks a run's metrics against its thresholds; used on the chief and on this computer."""
