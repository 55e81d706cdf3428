"""The clouds: their machines, deadlines, firewalls, costs and buckets. One folder per cloud.

`base` is the protocol of machines, `storage` that of buckets; the registry is `inventory/clouds.py`.
May import `plan` and above, but not `ssh`.
"""
