"""Objects of buckets, for programs on the chief and on this computer. Operations that only this
computer needs are in `bootstrap/clouds`.

A cloud's SDK is imported when a client is created.
"""
