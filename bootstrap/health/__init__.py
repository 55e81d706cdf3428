"""Health checks before a long run: GPUs, TensorFlow, links, ports, clocks and disks.

`measure` reads values on the hosts, `checks` turns them into findings, `report` formats both,
`run` calls them in order. May import `lifecycle` and above.
"""
