"""Health checks before a long run: GPUs, TensorFlow, links, ports, clocks, disks.

`checks` judges, `measure` asks the hosts, `report` prints, `run` puts them in order. May import
`lifecycle` and above.
"""
