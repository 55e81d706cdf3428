"""What is shipped to hosts: the agent, the parts of a run, probes and shell scripts.

Standard library only, Python 3.10; imports nothing of ours but what lies beside it. Modules that
do nothing when they are imported may be used from this side too (tests/test_rooms.py lists them).
"""
