"""Horovod: one process per slot, one replica each; mpirun started them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from ..config import TrainConfig
from ..job import Job
from .gpus import claim_gpus, gpu_for
from .protocol import Strategy


class Horovod(Strategy):
    """The sums are Horovod's own all-reduce, of all gradients of a step at once."""

    pending = 1

    def __init__(self, config: TrainConfig, results: Path) -> None:
        os.environ.update(settings(config, results))  # read once, in init()
        import horovod.tensorflow as hvd

        hvd.init()
        self.hvd = hvd
        self.size = self.processes = hvd.size()
        self.rank = hvd.rank()
        self.replicas = range(self.rank, self.rank + 1)
        self.compression = hvd.Compression.fp16 if config.compression == "fp16" else None
        gpu = gpu_for(hvd.local_rank(), tf.config.list_physical_devices("GPU"))
        claim_gpus([gpu] if gpu else [])

    def run(self, replica_step: Callable[[Any], Any], batch: Any) -> Any:
        return replica_step(batch)

    def replica(self) -> Any:
        return self.rank

    def reduce(self, gradients: Sequence[Any], tallies: Any) -> tuple[list[Any], Any]:
        hvd = self.hvd
        if self.compression is None:  # one group: Horovod sends all of it together
            *sums, total = hvd.grouped_allreduce([*gradients, tallies], op=hvd.Sum)
            return sums, total
        total = hvd.allreduce(tallies, op=hvd.Sum)  # counts need all their digits
        if not gradients:
            return [], total
        # Horovod adds in half precision, where the sum of 40,000 from each of two ranks is
        # infinite.
        shares = [gradient / self.size for gradient in gradients]
        means = hvd.grouped_allreduce(shares, op=hvd.Sum, compression=self.compression)
        return [mean * self.size for mean in means], total

    def broadcast(self, variables: Sequence[Any]) -> None:
        self.hvd.broadcast_variables(list(variables), root_rank=0)

    def average(self, variables: Sequence[Any]) -> None:
        for variable in variables:
            variable.assign(self.hvd.allreduce(variable, op=self.hvd.Average))

    def total(self, values: Any) -> Any:
        return self.hvd.allreduce(tf.constant(values), op=self.hvd.Sum).numpy()

    def close(self) -> None:
        self.hvd.shutdown()


def settings(config: TrainConfig, results: Path) -> dict[str, str]:
    """Horovod's own variables, for the settings that differ from its defaults."""
    variables = {}
    if config.fusion_mb:
        variables["HOROVOD_FUSION_THRESHOLD"] = str(config.fusion_mb << 20)
    if config.cycle_ms:
        variables["HOROVOD_CYCLE_TIME"] = str(config.cycle_ms)
    if config.timeline == "on":
        results.mkdir(parents=True, exist_ok=True)
        variables["HOROVOD_TIMELINE"] = str(results / "timeline.json")
    return variables


def create(job: Job) -> Horovod:
    """The rank that mpirun started."""
    return Horovod(job.config, job.results)
