"""The machines around a run: start and stop, deadlines, host keys of a cloud, teardown, destroy.

May import `provision`, `runs` and above.
"""
