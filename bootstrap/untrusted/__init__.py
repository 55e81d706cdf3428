"""Checks of what a host or a bucket sends: file names, archives, manifests.

A host may be compromised, so everything that it sends is checked before it becomes a file here.
May import `errors`, `console` and `inventory`.
"""
