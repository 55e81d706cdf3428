"""The training loop of `training/`, one epoch at a time, without its evaluation."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import keras
import numpy as np

from training.config import TrainConfig, resolve
from training.data.uri import DataSource
from training.evaluation.evaluator import Result
from training.job import Job, share_of_cores
from training.results import Metrics, Records
from training.strategies.distributed import Distributed, one_device
from training.train import Training


@dataclass(frozen=True)
class Case:
    """A model, its images and its batch; an epoch is so many steps."""

    model: str
    side: int
    channels: int
    batch: int
    steps: int

    @property
    def samples(self) -> int:
        """In the training set; one batch more is held out."""
        return self.batch * self.steps


CASES = {"mnist-cnn": Case("mnist-cnn", 28, 1, 64, 60), "resnet50": Case("resnet50", 32, 3, 16, 10)}


def images(case: Case, folder: Path) -> dict[str, Path]:
    """Random images with labels, as NumPy files: a folder for train and one for validation."""
    generator = np.random.default_rng(0)
    folders = {}
    for name, count in (("train", case.samples), ("validation", case.batch)):
        shape = (count, case.side, case.side, case.channels)
        folders[name] = folder / name
        folders[name].mkdir()
        pixels = generator.integers(0, 256, shape, np.uint8)
        np.savez(folders[name] / "images.npz", x=pixels, y=generator.integers(0, 10, count))
    return folders


def settings(case: Case, **more: Any) -> TrainConfig:
    """Those of a training that never ends by itself."""
    chosen = {"data": "numpy", "model": case.model, "batch_size": case.batch, "epochs": 10000}
    chosen |= {"shift": 0, "decay": "none", "checkpoint_minutes": 0.0, "export": "off"}
    return resolve({**chosen, **more})


def training_of(config: TrainConfig, data: dict[str, Path], results: Path) -> Training:
    """A training on one device, ready for its first step."""
    sources = {name: DataSource(str(path)) for name, path in data.items()}
    job = Job("one-device", config, results, threads=share_of_cores(1), data=sources)
    job = Job(**{**vars(job), "checkpoints": results / "checkpoints"})
    keras.utils.clear_session()
    strategy: Distributed = one_device(job)
    training = Training(strategy, job, Records(local_rank=0, out=io.StringIO()))
    training.prepare_steps()
    return training


@dataclass(frozen=True)
class Taken:
    """Seconds of one epoch: on the clock, and of this process's CPU time, which bears other work
    on the machine better."""

    wall: float
    cpu: float


class Stopwatch:
    """Measures from its start."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def taken(self) -> Taken:
        """The seconds since the start."""
        return Taken(time.perf_counter() - self.wall, time.process_time() - self.cpu)


def epoch(training: Training) -> Callable[[], Taken]:
    """A function that trains one epoch and returns its time."""
    nothing = Result(Metrics(1.0, 0.0, 1), [], None)

    def train() -> Taken:
        watch = Stopwatch()
        training.run_epoch(lambda: nothing)
        return watch.taken()

    return train


def compare(
    first: Callable[[], Taken], second: Callable[[], Taken], rounds: int, samples: int
) -> float:
    """How many times as fast the second is as the first: the median of the rounds' ratios.

    Both are measured in turns; a first round warms up and is left out. Prints the rates and the
    ratio of CPU times.
    """
    first(), second()
    pairs = [(first(), second()) for _ in range(rounds)]
    for name, taken in zip(("first", "second"), zip(*pairs, strict=True), strict=True):
        rates = sorted(samples / each.wall for each in taken)
        print(f"{name:6} {rates[0]:9.1f} {median(rates):9.1f} {rates[-1]:9.1f} samples/s")
    cpu = median(a.cpu / b.cpu for a, b in pairs)
    print(f"CPU time of the first / of the second: {cpu:.2f}")
    return median(a.wall / b.wall for a, b in pairs)
