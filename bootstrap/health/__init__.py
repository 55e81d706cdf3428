"""Health checks before a long run: GPUs, TensorFlow, links, ports, clocks, disks.

`measure` takes readings on the hosts, `checks` turns them into findings, `report` formats both,
`run` calls them in order. May import `lifecycle` and above.
"""
