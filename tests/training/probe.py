"""A rank of a real training that also reports what it ended with; run by the tests of strategies.

It is `python -m training` in the environment that a run's rank gets, taken from mpirun where there
is one. Each rank writes rank-N.json: its weights, its steps and its rates.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

from training import models, optimizer, train
from training.__main__ import main
from training.job import Job
from training.strategies import distributed
from training.variables import is_seed, moving


class Watched(train.Training):
    """Writes its weights and rates when it has run."""

    def run(self) -> Any:
        start = self._averages()
        evaluation = super().run()
        warming = dataclasses.replace(self.config, warmup_epochs=1.0)
        steps, total = self.plan.steps, self.total
        rate = optimizer.schedule(
            warming, global_batch=self.plan.global_batch, steps=steps, total=total
        )
        found = {
            "weights": [weight.numpy().ravel().tolist() for weight in self.model.weights],
            "iterations": int(self.optimizer.iterations.numpy()),
            "averages": start,
            "replicas": list(self.strategy.replicas),
            "seeds": [
                variable.numpy().ravel().tolist()
                for variable in self.model.variables
                if is_seed(variable)
            ],
            "rates": [float(rate(0)), float(rate(steps))],
        }
        if os.environ.get("PROBE_SUMS"):  # one more than float16 can count
            of_replica = [tf.constant([2049.0])], tf.constant([2049.0])
            found["sums"] = [float(part) for part in flat(self.strategy.reduce(*of_replica))]
        path = Path(os.environ["PROBE_FOLDER"], f"rank-{self.strategy.rank}.json")
        path.write_text(json.dumps(found))
        return evaluation

    def _save(self) -> None:
        """A kill -9 right after a checkpoint, if the test wants one."""
        last = self.position.step == int(os.environ.get("PROBE_KILL_AT", "-1"))
        if last:
            path = Path(os.environ["PROBE_FOLDER"], f"killed-{self.strategy.rank}.json")
            path.write_text(json.dumps(self._averages()))
        super()._save()
        if last:
            os.kill(os.getpid(), signal.SIGKILL)

    def _averages(self) -> list[float]:
        """This process's moving averages."""
        own = [variable.numpy().ravel() for variable in moving(self.model)]
        return [float(value) for values in own for value in values]


def flat(sums: tuple[list[Any], Any]) -> list[Any]:
    """The gradient's sum and that of the tallies."""
    ((gradient,), tallies) = sums
    return [gradient[0], tallies[0]]


def two_replicas_on_the_cpu(job: Job) -> distributed.Distributed:
    """MirroredStrategy on two halves of the CPU, as on a host with two GPUs."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    halves = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, halves)
    return distributed.Distributed(tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"]))


if __name__ == "__main__":
    os.environ["RAILHEAD_LOCAL_RANK"] = os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0")
    train.Training = Watched  # type: ignore[misc]
    if os.environ.get("PROBE_LAYERS"):
        models.MODELS["linear"] = "layers_with_state"  # beside this file
    if os.environ.get("PROBE_TWO_REPLICAS"):
        distributed.mirrored = two_replicas_on_the_cpu
    sys.exit(main([]))
