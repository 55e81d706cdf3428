"""Facts of a host: one module per subject, each a table of POSIX sh commands and parsers.

Facts need no root and no Python on the host, and write nothing. May import `inventory` and above.
"""
