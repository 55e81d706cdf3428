"""ParameterServerStrategy: the chief gives batches to workers, servers hold the variables.

Steps are asynchronous: workers do not wait for each other, so a gradient may come from variables
that have changed since. The chief reads the data and gives each batch to one worker: every sample
is trained once per epoch here too, in no fixed order. Keras 3's optimizers refuse partitioned
variables, so each variable is stored whole on one server.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ..job import Job
from ..results import TrainingError
from .gpus import claim_gpus
from .protocol import Strategy

ROLES = ("chief", "worker", "ps")
START = 600.0  # seconds in which the chief must come up
POLL = 0.5


def role() -> tuple[str, int, dict[str, list[str]]]:
    """This process's role and index, and the addresses of every role, from TF_CONFIG."""
    try:
        document = json.loads(os.environ["TF_CONFIG"])
        cluster, task = dict(document["cluster"]), document["task"]
    except (KeyError, TypeError, ValueError):
        raise TrainingError(
            "strategy parameter-server needs TF_CONFIG with cluster and task"
        ) from None
    if missing := [name for name in ROLES if not cluster.get(name)]:
        raise TrainingError(f"TF_CONFIG names no {' and no '.join(missing)}: all three are needed")
    if task["type"] not in ROLES:
        raise TrainingError(f"TF_CONFIG's task is {task['type']!r}: one of {', '.join(ROLES)}")
    return task["type"], int(task["index"]), cluster


def serve() -> None:
    """Be a worker or a parameter server until the chief exits, for whatever reason."""
    name, index, cluster = role()
    claim_gpus(tf.config.list_physical_devices("GPU"))
    server = tf.distribute.Server(cluster, job_name=name, task_index=index, protocol="grpc")
    wait_for_end(cluster["chief"][0])
    del server


def wait_for_end(address: str, start: float = START) -> None:
    """Return when the chief has listened at its address and no longer does.

    Raises:
        TrainingError: it never listened within `start` seconds.
    """
    begin = time.monotonic()
    while not listens(address):
        if time.monotonic() - begin > start:
            raise TrainingError(f"the chief at {address} did not start within {start:.0f} s")
        time.sleep(POLL)
    while listens(address) or listens(address):
        time.sleep(POLL)


def listens(address: str) -> bool:
    """Whether something accepts connections there."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5):
            return True
    except OSError:
        return False


class ParameterServer(Strategy):
    """The chief: it schedules steps and reads no result before it needs it."""

    rank = 0
    size = 1
    replicas = range(1)

    def __init__(self) -> None:
        _, _, cluster = role()
        claim_gpus([])  # the chief only coordinates
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        self.strategy = tf.distribute.ParameterServerStrategy(resolver)
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(self.strategy)
        self.processes = sum(len(addresses) for addresses in cluster.values())
        self.pending = 2 * len(cluster["worker"])

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        scope: contextlib.AbstractContextManager[Any] = self.strategy.scope()
        return scope

    def run(self, replica_step: Callable[[Any], Any], batch: Any) -> Any:
        return self.strategy.run(replica_step, args=(batch,))

    def replica(self) -> Any:
        return 0

    def reduce(self, gradients: Sequence[Any], tallies: Any) -> tuple[list[Any], Any]:
        return list(gradients), tallies

    def call(self, step: Any, batch: Any) -> Any:
        return self.coordinator.schedule(step, args=(batch,))

    def fetch(self, result: Any) -> Any:
        return self.coordinator.fetch(result)

    def close(self) -> None:
        """Workers and servers end when this process no longer listens."""
        self.coordinator.join()


def create(job: Job) -> ParameterServer:
    """The chief of the cluster in TF_CONFIG."""
    return ParameterServer()
