"""The operations of a host's agent: each class is a request, with its reply, events and bounds.

A module has the operations of one subject. Each start of an agent compiles what it loads, so this
file imports none of them.
"""
