"""Strategy `auto`: which one fits the processes and devices. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Mapping


def choose(environ: Mapping[str, str], gpus: int) -> tuple[str, str]:
    """The name of a strategy, and why. `gpus` counts those of this host."""
    started = int(environ.get("OMPI_COMM_WORLD_SIZE", "1"))
    cluster = roles(environ.get("TF_CONFIG", ""))
    if cluster.get("ps", 0):
        return "parameter-server", "TF_CONFIG names parameter servers"
    if (workers := worker_count(cluster)) > 1:
        chief = ", the chief is one of them" if cluster.get("chief") else ""
        return "multiworker", f"TF_CONFIG names {workers} workers{chief}"
    if started > 1:
        return "horovod", f"mpirun started {started} processes"
    if gpus > 1:
        return "mirrored", f"one process has {gpus} GPUs"
    return "one-device", "one process has one GPU" if gpus else "one process has no GPU"


def worker_count(cluster: Mapping[str, int]) -> int:
    """How many processes train together, from the tasks per role: a chief is a worker too."""
    return cluster.get("chief", 0) + cluster.get("worker", 0)


def roles(tf_config: str) -> dict[str, int]:
    """How many tasks TF_CONFIG names per role."""
    try:
        cluster = json.loads(tf_config)["cluster"]
        return {name: len(addresses) for name, addresses in cluster.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
