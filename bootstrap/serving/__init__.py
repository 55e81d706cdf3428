"""Endpoints: a model served on a host or on this computer until its time-to-live is over.

May import `lifecycle`, `evaluation`, `report` and above, but not `health`.
"""
