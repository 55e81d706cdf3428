"""What leaves the chief during a run, a piece at a time."""
