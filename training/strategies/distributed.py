"""TensorFlow's own synchronous strategies: one-device, mirrored and multiworker."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ..job import Job
from ..results import TrainingError
from .auto import worker_count
from .device_copies import end_at_once
from .gpus import claim_gpus
from .protocol import Strategy

WORKERS = ("chief", "worker")  # roles of TF_CONFIG


class Distributed(Strategy):
    """A tf.distribute strategy in one process: one-device and mirrored."""

    rank = 0
    processes = 1
    pending = 1

    def __init__(self, strategy: Any) -> None:
        end_at_once()
        self.strategy = strategy
        self.size = strategy.num_replicas_in_sync
        replicas_here = self.size // self.processes
        self.replicas = range(self.rank * replicas_here, (self.rank + 1) * replicas_here)

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        scope: contextlib.AbstractContextManager[Any] = self.strategy.scope()
        return scope

    def iterate(self, dataset: Callable[[range], Any]) -> Iterator[Any]:
        # Called once on each host; we assign samples by our own rule, so its context is not needed.
        iterable = self.strategy.distribute_datasets_from_function(lambda _: dataset(self.replicas))
        return iter(iterable)

    def run(self, replica_step: Callable[[Any], Any], batch: Any) -> Any:
        results = self.strategy.run(replica_step, args=(batch,))
        return self.strategy.experimental_local_results(results)[0]

    def replica(self) -> Any:
        return tf.distribute.get_replica_context().replica_id_in_sync_group

    def reduce(self, gradients: Sequence[Any], tallies: Any) -> tuple[list[Any], Any]:
        context = tf.distribute.get_replica_context()
        *sums, total = context.all_reduce("SUM", [*gradients, tallies])
        return sums, total

    def average(self, variables: Sequence[Any]) -> None:
        """Each replica has its own values: Keras 3 makes such variables without an aggregation."""
        for variable in variables if self.size > 1 else ():
            values = self.strategy.run(variable.read_value)
            variable.assign(self.strategy.reduce("MEAN", values, axis=None))

    def replica_values(self, variable: Any) -> Any:
        return np.stack([copy.numpy() for copy in self._own(variable)])

    def assign_replicas(self, variable: Any, values: Any) -> None:
        for copy, value in zip(self._own(variable), values, strict=True):
            copy.assign(value)

    def _own(self, variable: Any) -> Sequence[Any]:
        own_variables: Sequence[Any] = self.strategy.experimental_local_results(variable)
        return own_variables


class MultiWorker(Distributed):
    """MultiWorkerMirroredStrategy: one process per host, which knows the others by TF_CONFIG.

    A chief, if TF_CONFIG names one, is rank 0, and the workers follow.
    """

    def __init__(self) -> None:
        if not os.environ.get("TF_CONFIG"):
            raise TrainingError("strategy multiworker needs TF_CONFIG, and it is not set")
        claim_gpus(tf.config.list_physical_devices("GPU"))
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        cluster = {name: len(tasks) for name, tasks in resolver.cluster_spec().as_dict().items()}
        if resolver.task_type not in WORKERS:
            raise TrainingError(
                f"TF_CONFIG's task is {resolver.task_type!r}: strategy multiworker trains as "
                f"{' or '.join(WORKERS)}"
            )
        before = cluster.get("chief", 0) if resolver.task_type == "worker" else 0
        self.rank = before + int(resolver.task_id)
        self.processes = worker_count(cluster)
        super().__init__(tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver))
        self._total = tf.function(self._reduce, autograph=False)

    def total(self, values: Any) -> Any:
        return self._total(tf.constant(values)).numpy()

    def close(self) -> None:
        self.total([0.0])  # a worker that leaves early is an error to the others

    def _reduce(self, values: Any) -> Any:
        def add(values: Any) -> Any:
            context = tf.distribute.get_replica_context()
            # All replicas here hold the same values: only the first one's count.
            first = context.replica_id_in_sync_group % len(self.replicas) == 0
            return context.all_reduce("SUM", tf.where(first, values, tf.zeros_like(values)))

        results = self.strategy.run(add, args=(values,))
        return self.strategy.experimental_local_results(results)[0]


def multiworker(job: Job) -> MultiWorker:
    """The worker that TF_CONFIG names."""
    return MultiWorker()


def one_device(job: Job) -> Distributed:
    """The first GPU if there is one, otherwise the CPU."""
    gpus = tf.config.list_physical_devices("GPU")[:1]
    claim_gpus(gpus)
    return Distributed(tf.distribute.OneDeviceStrategy("gpu:0" if gpus else "cpu:0"))


def mirrored(job: Job) -> Distributed:
    """All GPUs of this host, or its CPU as the only replica."""
    gpus = tf.config.list_physical_devices("GPU")
    claim_gpus(gpus)
    devices = [f"gpu:{number}" for number in range(len(gpus))] or ["cpu:0"]
    return Distributed(tf.distribute.MirroredStrategy(devices))
