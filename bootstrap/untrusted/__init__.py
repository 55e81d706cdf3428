"""Checks of data from a host or a bucket: file names, archives, manifests.

A host may be compromised, so everything that it sends is checked before it becomes a file here.
May import `errors`, `console` and `inventory`.
"""
