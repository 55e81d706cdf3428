"""The machines before and after a run: start, stop, deadlines, host keys, teardown, destroy.

May import `provision`, `runs` and above.
"""
