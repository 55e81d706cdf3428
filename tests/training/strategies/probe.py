"""A rank of real trainings that also reports what they ended with: run by the tests of strategies.

    probe.py JOBS.json NUMBER    a list of trainings, and the number of this process

Each is `python -m training` in the environment of a run's rank, one after the other: TensorFlow and
Horovod take seconds to start, so a process keeps what joins it to the others. A training has a
folder, where each process writes output-NUMBER, and rank-RANK.json: weights, steps and rates.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from training import registry, strategies, train
from training.__main__ import main
from training.job import Job
from training.learning import optimizer
from training.strategies import distributed, horovod
from training.strategies.protocol import Strategy
from training.variables import is_seed, moving


class Killed(BaseException):
    """Stands for a kill: the training ends, and nothing of it is left in memory."""


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
        report = {
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
            report["sums"] = [float(each) for each in flat(self.strategy.reduce(*of_replica))]
        path = Path(os.environ["PROBE_FOLDER"], f"rank-{self.strategy.rank}.json")
        path.write_text(json.dumps(report))
        return evaluation

    def _save(self) -> None:
        """The end right after a checkpoint, if the test wants one: PROBE_END is kill or leave."""
        last = self.position.step == int(os.environ.get("PROBE_END_AT", "-1"))
        if last:
            path = Path(os.environ["PROBE_FOLDER"], f"killed-{self.strategy.rank}.json")
            path.write_text(json.dumps(self._averages()))
        super()._save()
        if last:
            self.state.finish()
            if os.environ["PROBE_END"] == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise Killed

    def _averages(self) -> list[float]:
        """This process's moving averages."""
        moved = [variable.numpy().ravel() for variable in moving(self.model)]
        return [float(value) for values in moved for value in values]


def flat(sums: tuple[list[Any], Any]) -> list[Any]:
    """The gradient's sum and that of the tallies."""
    ((gradient,), tallies) = sums
    return [gradient[0], tallies[0]]


def cut_cpu() -> None:
    """Give MirroredStrategy two halves of the CPU, as on a host with two GPUs."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    halves = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, halves)
    distributed.mirrored = two_replicas


def two_replicas(job: Job) -> distributed.Distributed:
    """MirroredStrategy on both halves."""
    return distributed.Distributed(tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"]))


def keep_strategies() -> None:
    """Join the other processes once for each strategy, whatever the number of trainings. Horovod
    is made anew, since it has settings; it starts once and shuts down with the process."""
    make = strategies.make
    once = functools.cache(lambda name: make(name, jobs[name]))
    jobs: dict[str, Job] = {}

    def kept(name: str, job: Job) -> Strategy:
        jobs.setdefault(name, job)
        return make(name, job) if name == "horovod" else once(name)

    strategies.make = kept
    horovod.Horovod.close = lambda self: None  # type: ignore[method-assign]


def run(job: dict[str, Any], number: str) -> None:
    """One training; its exit code goes into code-NUMBER."""
    folder = Path(job["environment"]["PROBE_FOLDER"])
    with (folder / f"output-{number}").open("w") as output:
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
    os.environ.update(job["environment"])
    if results := os.environ.get("PROBE_RESULTS"):
        os.environ["RAILHEAD_RESULTS"] = results
    keras.utils.clear_session(free_memory=False)
    registry.MODELS["linear"] = LAYERS if os.environ.get("PROBE_LAYERS") else LINEAR
    try:
        code = main([])
    except Killed:
        code = -signal.SIGKILL
    sys.stdout.flush()
    (folder / f"code-{number}").write_text(str(code))
    for name in job["environment"]:
        del os.environ[name]


LINEAR, LAYERS = registry.MODELS["linear"], "samples.layers_with_state"

if __name__ == "__main__":
    # Graphs stay as they are: small ones run a few times, and to optimize them takes longer.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    jobs_file, *numbers = sys.argv[1:]
    number_here = os.environ.get("OMPI_COMM_WORLD_RANK") or numbers[0]
    os.environ["RAILHEAD_LOCAL_RANK"] = os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0")
    train.Training = Watched  # type: ignore[misc]
    jobs_here = json.loads(Path(jobs_file).read_text())
    if len(jobs_here) > 1:
        keep_strategies()
    if os.environ.get("PROBE_TWO_REPLICAS"):
        cut_cpu()
    gc.freeze()  # a full collection looks through all objects of TensorFlow
    for each in jobs_here:
        run(each, number_here)
