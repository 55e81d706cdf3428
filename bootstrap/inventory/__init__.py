"""The hosts that a command applies to, and the records of them on this computer.

`hosts` parses `--hosts`; `document` reads and writes the cluster document; `pulumi_stack` reads
it from Pulumi; `local_state` keeps the files under ~/.railhead. May import `errors` and `console`.
"""
