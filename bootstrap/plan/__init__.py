"""What has to be done on the hosts, and why: pure functions from facts and options to steps.

No module here opens a connection or starts a process on a host. May import `facts` and above.
"""
