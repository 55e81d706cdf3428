"""Which hosts a command is about, and what is remembered about them.

`hosts` parses `--hosts`; `document` reads and writes the cluster document; `pulumi_stack` asks
Pulumi for it; `local_state` is what lies under ~/.railhead here. May import `errors` and `console`.
"""
