"""The clouds: their machines, deadlines, firewalls, costs and buckets. One folder per cloud.

`base` is the protocol of machines, `storage` that of buckets; `inventory/clouds.py` is the
registry. May import `plan` and above, but not `ssh`.
"""
