"""What judges the evaluation of a run, on the chief and on this side."""
