"""The trials of a sweep: which values each has, and which of them are hopeless. Pure."""

from __future__ import annotations

import math
import random
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import median
from typing import Any

from bootstrap.console.text import count, number
from bootstrap.errors import Command, UsageError
from bootstrap.inventory.hosts import Inventory
from railhead.documents.options.runs import ProgramOptions

MOST = 100  # trials
# A trial can be hopeless after this part of its epochs, if so many others have ended: few tell
# little about an early epoch.
NEEDED = ((1 / 3, 4), (1 / 2, 2))
METRICS = ("val_accuracy", "val_loss", "val_mae")


@dataclass(frozen=True)
class Trial:
    """One combination of values: {name: value}."""

    values: Mapping[str, str]

    @property
    def name(self) -> str:
        """Such as "learning_rate=0.1 batch_size=32"."""
        return " ".join(f"{name}={value}" for name, value in self.values.items())

    def args(self, base: ProgramOptions) -> ProgramOptions:
        """The options of the trial: settings of our own training, or arguments of a script."""
        if base.script is None:
            return replace(base, settings={**base.settings, **self.values})
        options = [item for name, value in self.values.items() for item in (f"--{name}", value)]
        return replace(base, args=f"{base.args or ''} {shlex.join(options)}".strip())


def read_trials(
    values: Mapping[str, tuple[str, ...]], drawn: int | None = None
) -> tuple[Trial, ...]:
    """The combinations of the values; with `drawn`, so many of them, the same ones each time.

    Raises:
        UsageError: there are none, or too many.
    """
    if not values:
        rule = "--set NAME=VALUE,VALUE,...: at least one"
        raise UsageError(rule, hint=Command("sweep", set="learning_rate=0.01,0.001"))
    trials = [Trial(dict(zip(values, each, strict=True))) for each in product(*values.values())]
    if drawn is not None and drawn < len(trials):
        trials = random.Random(0).sample(trials, drawn)
    if len(trials) > MOST:
        raise UsageError(
            f"{len(trials)} combinations: at most {MOST}", hint=f"--random {MOST}   # draws some"
        )
    return tuple(trials)


def slices_of(inventory: Inventory, at_once: int, trials: int) -> tuple[Inventory, ...]:
    """The hosts in equal slices, in their order, for so many trials at the same time.

    Raises:
        UsageError: they cannot be divided so, or there are fewer trials.
    """
    hosts = len(inventory.hosts)
    choices = [n for n in range(1, min(hosts, trials) + 1) if hosts % n == 0]
    if at_once not in choices:
        raise UsageError(
            f"--at-once {at_once}: {count(hosts, 'host')} cannot be divided into so many equal "
            f"slices, each with one of {count(trials, 'trial')}; choices: "
            f"{', '.join(map(str, choices))}",
            hint=Command("sweep", at_once=max(n for n in choices if n < at_once)),
        )
    size = hosts // at_once
    starts = range(0, hosts, size)
    return tuple(inventory.only(inventory.names[n : n + size]) for n in starts)


class Course:
    """The held-out metric of a trial by epoch: the best value so far."""

    def __init__(self) -> None:
        self.values: dict[int, float] = {}
        self.best = -math.inf
        self.metric = ""
        self.epochs = 0

    def add(self, record: Mapping[str, Any]) -> None:
        """Take an epoch's record; others are ignored."""
        epoch, epochs = number(record, "epoch"), number(record, "epochs")
        metric = next((name for name in METRICS if number(record, name) is not None), "")
        value = number(record, metric)
        if record.get("kind") != "epoch" or value is None or math.isnan(value):
            return
        if epoch is None or not math.isfinite(epoch) or not math.isfinite(epochs or 0):
            return
        self.metric, self.epochs = metric, int(epochs or 0)
        sign = 1.0 if metric == "val_accuracy" else -1.0
        self.best = max(self.best, sign * value)
        self.values[int(epoch)] = self.best


def is_hopeless(course: Course, finished: Sequence[Course]) -> bool:
    """Whether a trial is worse than the median of those that have ended, at the same epoch: the
    median stopping rule."""
    if not course.values:
        return False
    epoch = max(course.values)
    others = [o.values[epoch] for o in finished if epoch in o.values and o.metric == course.metric]
    enough = any(epoch >= course.epochs * part and len(others) >= n for part, n in NEEDED)
    return enough and epoch < course.epochs and course.values[epoch] < median(others)
