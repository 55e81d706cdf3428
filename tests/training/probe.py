"""A rank of a real training that also says what it ended with; run by the tests of strategies.

It is `python -m training` in the environment that a run's rank gets, taken from mpirun where there
is one. Each rank writes rank-N.json: its weights, its steps and its rates.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

from training import loop, strategies
from training.__main__ import main


class Watched(loop.Training):
    """Tells its weights and rates when it has run."""

    def run(self) -> Any:
        held_out = super().run()
        warming = dataclasses.replace(self.config, warmup_epochs=1.0)
        schedule = loop.build_optimizer(warming, self.strategy.size, self.steps)._learning_rate
        found = {
            "weights": [weight.numpy().ravel().tolist() for weight in self.model.weights],
            "iterations": int(self.optimizer.iterations.numpy()),
            "replicas": list(self.strategy.replicas),
            "rates": [float(schedule(0)), float(schedule(self.steps))],
        }
        path = Path(os.environ["PROBE_FOLDER"], f"rank-{self.strategy.rank}.json")
        path.write_text(json.dumps(found))
        return held_out


def two_replicas_on_the_cpu() -> strategies.Distributed:
    """MirroredStrategy on two halves of the CPU, as on a host with two GPUs."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    halves = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, halves)
    return strategies.Distributed(tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"]))


if __name__ == "__main__":
    os.environ["RAILHEAD_LOCAL_RANK"] = os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0")
    loop.Training = Watched  # type: ignore[misc]
    if os.environ.get("PROBE_TWO_REPLICAS"):
        strategies.ADAPTERS["mirrored"] = two_replicas_on_the_cpu
    sys.exit(main([]))
