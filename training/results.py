"""What a training leaves: records on stdout as it goes, and two files at its end.

A record is one line, `@railhead {json}`. The first rank of each host reports progress; rank 0 alone
reports epochs and the evaluation, and writes model.keras and evaluation.json.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

PREFIX = "@railhead "
MODEL = "model.keras"
EVALUATION = "evaluation.json"


class TrainingError(Exception):
    """The training cannot go on; the message says why and what to change. Exit code 1."""


@dataclass(frozen=True)
class Metrics:
    """Means over `samples` samples; `accuracy` is 0..1."""

    loss: float
    accuracy: float
    samples: int


@dataclass(frozen=True)
class Evaluation:
    """The held-out result. Without a threshold every result has passed."""

    accuracy: float
    loss: float
    samples: int
    threshold: float | None
    passed: bool


def judge(metrics: Metrics, threshold: float | None) -> Evaluation:
    """Set the held-out metrics against the accuracy that was asked for."""
    passed = threshold is None or metrics.accuracy >= threshold
    return Evaluation(metrics.accuracy, metrics.loss, metrics.samples, threshold, passed)


class Records:
    """Prints records; a rank that should be silent has a silent one."""

    def __init__(self, *, local_rank: int, out: TextIO | None = None) -> None:
        self.silent = local_rank != 0
        self.out = out or sys.stdout

    def emit(self, kind: str, **values: Any) -> None:
        """Print one record now. What JSON cannot say (nan, inf) becomes null."""
        if self.silent:
            return
        values = {name: _rounded(value) for name, value in values.items()}
        line = json.dumps({"kind": kind, **values}, allow_nan=False)
        self.out.write(f"{PREFIX}{line}\n")
        self.out.flush()


class Progress:
    """Counts steps and reports at most five times a second, and at the last step.

    `samples_per_s` is over all ranks, in this epoch; the run's first step, which compiles, counts
    in no rate.
    """

    INTERVAL = 0.2

    def __init__(
        self,
        records: Records,
        *,
        epochs: int,
        steps_per_epoch: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.records = records
        self.epochs = epochs
        self.steps_per_epoch = steps_per_epoch
        self.steps = epochs * steps_per_epoch
        self.clock = clock
        self.step = 0
        self.first_end: float | None = None
        self.said = -math.inf
        self.start_epoch()

    def start_epoch(self) -> None:
        """Begin to count an epoch's samples; its time begins here too."""
        self.epoch_start = self.clock()
        self.epoch_samples = 0.0

    def count(self, samples: float, loss: Callable[[], float]) -> None:
        """Count one step of `samples` over all ranks; `loss` is asked only when it is reported."""
        self.step += 1
        now = self.clock()
        if self.first_end is None:
            self.first_end = self.epoch_start = now
        else:
            self.epoch_samples += samples
        if now - self.said >= self.INTERVAL or self.step == self.steps:
            self.said = now
            self._report(loss())

    def samples_per_s(self) -> float | None:
        """The rate of this epoch so far; None before there is one."""
        seconds = self.clock() - self.epoch_start
        return self.epoch_samples / seconds if self.epoch_samples and seconds > 0 else None

    def _report(self, loss: float) -> None:
        self.records.emit(
            "progress",
            epoch=-(-self.step // self.steps_per_epoch),
            epochs=self.epochs,
            step=self.step,
            steps=self.steps,
            loss=loss,
            samples_per_s=self.samples_per_s(),
            seconds_left=self._seconds_left(),
        )

    def _seconds_left(self) -> float | None:
        if self.step < 2 or self.first_end is None:
            return None
        per_step = (self.clock() - self.first_end) / (self.step - 1)
        return per_step * (self.steps - self.step)


def write_evaluation(evaluation: Evaluation, folder: Path) -> None:
    """Write evaluation.json; a reader sees the whole file or none."""
    text = json.dumps({name: _finite(value) for name, value in asdict(evaluation).items()})
    partial = folder / f".{EVALUATION}"
    partial.write_text(text + "\n", encoding="utf-8")
    partial.replace(folder / EVALUATION)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _rounded(value: Any) -> Any:
    """Six significant digits say all that a record can know."""
    value = _finite(value)
    return float(f"{value:.6g}") if isinstance(value, float) else value
