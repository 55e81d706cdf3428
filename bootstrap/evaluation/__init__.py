"""Evaluates the model of a run: the request of an evaluation, and the evaluation on this computer.

May import `provision`, `runs` and above.
"""
