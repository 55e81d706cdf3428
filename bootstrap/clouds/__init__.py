"""The clouds: their machines, deadlines, firewalls, costs and buckets. One folder per cloud.

`base` is the protocol and the registry; a new cloud is a folder here, one line in the registry and
a folder in `stacks`. May import `plan` and above, but not `ssh`.
"""
