"""Evaluates the model of a run: what is evaluated on what, and the evaluation on this machine.

`grid` makes the trials of a sweep and decides which ones end early. May import `provision`, `runs`
and above.
"""
