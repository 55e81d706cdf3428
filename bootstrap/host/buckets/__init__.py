"""Objects of buckets: written and read by the programs on the chief and on this computer. What
only this computer does with a bucket is in `bootstrap/clouds`.

A cloud's SDK is imported when a client is created.
"""
