"""The output of a training: records while it runs, and its result at the end.

On a cluster a record is one line on stdout, `@railhead {json}`, which the supervisor collects into
metrics.jsonl. Alone, rank 0 writes metrics.jsonl itself and prints a line for people.
The first rank of each host reports progress; rank 0 alone reports epochs and the evaluation, and
writes model.keras and evaluation.json.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

PREFIX = "@railhead "
MODEL = "model.keras"
EVALUATION = "evaluation.json"
METRICS = "metrics.jsonl"


class TrainingError(Exception):
    """The training cannot continue; the message says why and what to change. Exit code 1."""


@dataclass(frozen=True)
class Metrics:
    """Means over `samples` samples; `score` is the task's metric, such as an accuracy of 0..1."""

    loss: float
    score: float
    samples: int


@dataclass(frozen=True)
class Evaluation:
    """The held-out result. `passed` is None without a threshold."""

    accuracy: float | None  # None: the task has none
    loss: float
    samples: int
    threshold: float | None
    passed: bool | None


def judge(metrics: Metrics, threshold: float | None, metric: str = "accuracy") -> Evaluation:
    """Compare the held-out metrics with the accuracy that the settings require."""
    accuracy = metrics.score if metric == "accuracy" else None
    passed = None if threshold is None else accuracy is not None and accuracy >= threshold
    return Evaluation(accuracy, metrics.loss, metrics.samples, threshold, passed)


# A held-out loss is far above the training loss from this factor and this difference on, where a
# loss of 1 is that of a guess.
FAR_FACTOR, FAR_DIFFERENCE, FEW = 2.0, 0.2, 20


def overfit_note(trained: Metrics, held_out: Metrics, unit: float = 1.0) -> str:
    """The message if the losses are far apart; empty otherwise, and with FEW held-out samples.
    `unit` is the variance of labels that are numbers."""
    difference = (held_out.loss - trained.loss) / unit
    far = held_out.loss > FAR_FACTOR * trained.loss and difference > FAR_DIFFERENCE
    if not far or held_out.samples < FEW:
        return ""
    return (
        f"the held-out loss, {held_out.loss:.4g}, is far above the training loss, "
        f"{trained.loss:.4g}: the model knows its training samples and not new ones. "
        "early_stopping=5 exports the best epoch; more data, a smaller model or weight_decay help"
    )


class Records:
    """Prints records; a rank that should be silent has a silent one.

    With `file` (alone, not on a cluster) records go there, and lines for people to `out`.
    """

    def __init__(
        self, *, local_rank: int, out: TextIO | None = None, file: Path | None = None
    ) -> None:
        self.silent = local_rank != 0
        self.out = out or sys.stdout
        self.file = file

    def emit(self, kind: str, **values: Any) -> None:
        """Print one record now. Values that JSON lacks (nan, inf) become null."""
        if self.silent:
            return
        record = {"kind": kind, **{name: _rounded(value) for name, value in values.items()}}
        if self.file is None:
            self._print(f"{PREFIX}{json.dumps(record, allow_nan=False)}")
            return
        if text := plain(record):
            self._print(text)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({**record, "rank": 0, "time": time.time()}) + "\n")

    def _print(self, line: str) -> None:
        self.out.write(f"{line}\n")
        self.out.flush()


def plain(record: dict[str, Any]) -> str:
    """A record as a line for people; empty for progress, checkpoints and starts."""
    if record["kind"] == "message":
        return str(record["text"])
    if record["kind"] in ("progress", "checkpoint", "start"):
        return ""
    shown = ("loss", "accuracy", "mae", "val_loss", "val_accuracy", "val_mae", "samples")
    more = (name for name in record if name.startswith("val_") and name not in shown)
    names = [name for name in (*shown, *more) if record.get(name) is not None]
    numbers = [f"{name} {record[name]:.6g}" for name in names]
    if record["kind"] == "epoch":
        numbers.insert(0, f"{record['epoch']}/{record['epochs']}")
    return "  ".join([str(record["kind"]), *numbers])


def ticker() -> Callable[[], None]:
    """The function to call after each step, and each batch of an evaluation, so that the run is not
    taken for one that stalls. On a cluster the rank provides it, in the module `railhead_ticks`."""
    tick: Callable[[], None] = getattr(sys.modules.get("railhead_ticks"), "tick", lambda: None)
    return tick


class Progress:
    """Counts steps and reports at most five times a second, and at the last step.

    `scalars` gets the loss of the epoch so far, the learning rate and the speed with each report.
    `samples_per_s` is over all ranks, in this epoch; the run's first step, which compiles, does not
    count. `step_s` is a step's mean time in this epoch, `input_s` the part of it that was spent
    waiting for the batch. The rest is computation and communication, which run as one.
    """

    INTERVAL = 0.2

    def __init__(
        self,
        records: Records,
        *,
        epochs: int,
        steps: int,
        step: int = 0,
        rate: Callable[[int], float] = lambda step: 0.0,
        scalars: Callable[..., None] = lambda step, **values: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.records = records
        self.epochs, self.steps = epochs, steps
        self.rate, self.scalars, self.clock = rate, scalars, clock
        self.step = self.first_step = step
        self.first_end: float | None = None
        self.tick = ticker()
        self.reported = -math.inf
        self.start_epoch(1)

    def start_epoch(self, epoch: int) -> None:
        """Begin to count an epoch's samples (the first epoch is 1); its time begins here too."""
        self.epoch = epoch
        self.epoch_start = self.clock()
        self.epoch_samples, self.epoch_steps, self.waiting = 0.0, 0, 0.0

    def count(self, samples: float, waited: float, loss: Callable[[], float]) -> None:
        """Count one step of `samples` over all ranks; `loss` is computed only when reported.

        `waited` is the time for which the step waited for its batch, in seconds.
        """
        self.step += 1
        self.tick()
        now = self.clock()
        if self.first_end is None:
            self.first_end = self.epoch_start = now
        else:
            self.epoch_samples += samples
            self.epoch_steps += 1
            self.waiting += waited
        if now - self.reported >= self.INTERVAL or self.step == self.steps:
            self.reported = now
            self._report(loss())

    def samples_per_s(self) -> float | None:
        """The rate of this epoch so far; None before there is one."""
        seconds = self.clock() - self.epoch_start
        return self.epoch_samples / seconds if self.epoch_samples and seconds > 0 else None

    def times(self) -> dict[str, float | None]:
        """Mean seconds per step in this epoch, and those of waiting for input."""
        if not self.epoch_steps:
            return {"step_s": None, "input_s": None}
        seconds = self.clock() - self.epoch_start
        return {
            "step_s": seconds / self.epoch_steps,
            "input_s": self.waiting / self.epoch_steps,
        }

    def _report(self, loss: float) -> None:
        values = {
            "loss": loss,
            "learning_rate": self.rate(self.step),
            "samples_per_s": self.samples_per_s(),
        }
        self.records.emit(
            "progress",
            epoch=self.epoch,
            epochs=self.epochs,
            step=self.step,
            steps=self.steps,
            **values,
            seconds_left=self._seconds_left(),
            **self.times(),
        )
        self.scalars(self.step, **values)

    def _seconds_left(self) -> float | None:
        steps_done = self.step - self.first_step
        if steps_done < 2 or self.first_end is None:
            return None
        per_step = (self.clock() - self.first_end) / (steps_done - 1)
        return per_step * (self.steps - self.step)


def epoch_figures(
    metric: str, trained: Metrics, held_out: Metrics, more: Mapping[str, float]
) -> dict[str, float | None]:
    """The figures of an epoch by their names in records; `more` are of the held-out data."""
    figures: dict[str, float | None] = {"loss": trained.loss, "accuracy": None}
    return figures | {metric: trained.score} | held_out_figures(metric, held_out, more)


def held_out_figures(
    metric: str, held_out: Metrics, more: Mapping[str, float]
) -> dict[str, float | None]:
    """The figures of the held-out data by their names in records."""
    figures: dict[str, float | None] = {"val_loss": held_out.loss, "val_accuracy": None}
    figures |= {f"val_{metric}": held_out.score}
    return figures | {f"val_{name}": value for name, value in more.items()}


def write_evaluation(evaluation: Evaluation, folder: Path, **more: Any) -> None:
    """Write evaluation.json; a reader sees the whole file or none."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {name: _finite(value) for name, value in {**asdict(evaluation), **more}.items()}
    partial = folder / f".{EVALUATION}"
    partial.write_text(json.dumps(values) + "\n", encoding="utf-8")
    partial.replace(folder / EVALUATION)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _rounded(value: Any) -> Any:
    """Six significant digits: measured values are not more precise."""
    value = _finite(value)
    return float(f"{value:.6g}") if isinstance(value, float) else value
