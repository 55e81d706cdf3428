"""What a checkpoint costs: how long the training stands still, and how much slower its steps are
meanwhile; against the steps, the synchronous way, and a copy of the same bytes.

Limits: the training stands still for at most 1 s, and loses at most 5 % of the time between two.
"""

from __future__ import annotations

import time
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.training.loop import CASES, epoch, images, settings, training_of
from training.config import TrainConfig
from training.train import Training
from training.variables import tensors_of

LIMIT = 0.05
PAUSE = 1.0  # seconds
DEFAULT_SECONDS = TrainConfig().checkpoint_minutes * 60


@dataclass(frozen=True)
class Seconds:
    """Those of one round."""

    pause: float  # of the training, for a checkpoint
    slower: float  # the steps of an epoch in which it is written
    waiting: float  # a checkpoint for which the training waits until it is written
    copy: float  # of arrays of the same sizes
    step: float


def run(model: str, rounds: int, folder: Path) -> bool:
    """Measure and print; whether the limits are kept at the default interval."""
    case = CASES[model]
    config = settings(case, checkpoint_minutes=TrainConfig().checkpoint_minutes)
    training = training_of(config, images(case, folder), folder / "results")
    train = epoch(training)
    train(), training.state.finish()
    measured = [one_round(training, case.steps) for _ in range(rounds)]
    middle = Seconds(*map(median, zip(*map(astuple, measured), strict=True)))
    size = sum(array.nbytes for array in copies(training))
    for name in vars(middle):
        values = [getattr(each, name) for each in measured]
        print(f"{name:8} {min(values):8.3f} {median(values):8.3f} {max(values):8.3f} s")
    lost = middle.pause + max(0.0, middle.slower)
    print(
        f"{model}, {size / 1e6:.0f} MB: the training stands still for {middle.pause:.2f} s, "
        f"{middle.pause / middle.step:.1f} steps, {middle.pause / middle.waiting:.2f} of a "
        f"checkpoint that it waits for, {middle.pause / middle.copy:.1f} copies of the bytes; "
        f"with the slower steps it loses {lost:.2f} s, {100 * lost / DEFAULT_SECONDS:.2f} % of the "
        f"{DEFAULT_SECONDS:.0f} s between two"
    )
    return lost / DEFAULT_SECONDS <= LIMIT and middle.pause <= PAUSE


def one_round(training: Training, steps: int) -> Seconds:
    """Each way once."""
    train = epoch(training)
    quiet = train().wall
    pause = seconds_of(training, wait=False)
    slower = train().wall - quiet
    training.state.finish()
    waiting = seconds_of(training, wait=True)
    arrays = copies(training)
    begin = time.perf_counter()
    copied = [np.array(array) for array in arrays]
    copy = time.perf_counter() - begin
    del arrays, copied
    return Seconds(pause, slower, waiting, copy, quiet / steps)


def seconds_of(training: Training, *, wait: bool) -> float:
    """The time of a checkpoint, or of its part for which the training stands still."""
    begin = time.perf_counter()
    training._save()
    if wait:
        training.state.finish()
    return time.perf_counter() - begin


def copies(training: Training) -> list[np.ndarray]:
    """The arrays of a checkpoint."""
    variables = [*training.model.variables, *training.optimizer.variables]
    return [np.asarray(array) for array in training.strategy.values(tensors_of(variables))]
