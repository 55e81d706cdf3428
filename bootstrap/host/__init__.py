"""The programs that are uploaded to hosts: the agent, the parts of a run, probes and shell scripts.

Standard library only, Python 3.10; imports only its neighbors here. Modules that
do nothing when they are imported may also be used on this computer; tests/test_rooms.py lists them.
"""
