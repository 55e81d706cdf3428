"""The metrics of a run: the options about them, its curves, and its events for TensorBoard.

Imports nothing of `runs` but this folder and pure modules.
"""
