"""Checks of what a host or a bucket sends: file names, archives, manifests.

A host may be compromised, so nothing that it sends becomes a file here unchecked. May import
`errors`, `console` and `inventory`.
"""
