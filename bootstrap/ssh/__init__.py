"""Connections to hosts: pinned host keys, jump hosts, port forwards, our agent, file transfer.

May import `plan` and above, but not `clouds`.
"""
