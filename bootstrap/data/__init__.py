"""The data of a run: what `--data` names, and how it reaches the hosts.

May import `errors`, `console`, `inventory`, `untrusted`, `facts`, `plan`, `ssh` and `clouds`.
"""
