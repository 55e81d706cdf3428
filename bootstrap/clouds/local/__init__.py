"""SSH hosts on this computer: real sshd processes on loopback addresses. Linux only.

`python -m bootstrap.clouds.local` is the command line that `stacks/local.py` uses.
"""
