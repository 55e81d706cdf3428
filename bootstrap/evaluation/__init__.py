"""Evaluates the model of a run: what is evaluated on what, and the evaluation on this machine.

May import `provision`, `runs` and above.
"""
