"""Plans the steps on the hosts, with their reasons: pure functions of facts and options.

No module here opens a connection or starts a process. May import `facts` and above.
"""
