"""Objects of buckets: written and read by the programs on the chief, and by this side. What only
this side does with a bucket is in `bootstrap/clouds`.

A cloud's SDK is imported when a client is made.
"""
