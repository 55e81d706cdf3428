"""The metrics of a run: the options about them, its curves, and its events for TensorBoard.

Of `runs`, it imports only this folder and pure modules.
"""
