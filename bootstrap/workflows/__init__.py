"""What each command does, in order. A task of `cli` checks its options and calls one of these.

May import everything but `cli`.
"""
