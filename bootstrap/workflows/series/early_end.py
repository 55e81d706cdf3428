"""Decides which trials of a sweep are hopeless, by the epochs of the others. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from railhead.documents.runs.records import Record

# (part of its epochs, number of other trials that have ended) from which a trial can be hopeless:
# a few other trials tell little about an early epoch.
NEEDED = ((1 / 3, 4), (1 / 2, 2))
METRICS = ("val_accuracy", "val_loss", "val_mae")


class Course:
    """The held-out metric of a trial by epoch: the best value so far."""

    def __init__(self) -> None:
        self.values: dict[int, float] = {}
        self.best = -math.inf
        self.metric = ""
        self.epochs = 0

    def add(self, record: Record) -> None:
        """Add the record of an epoch; other records are ignored."""
        metric = next((name for name in METRICS if name in record.figures), "")
        value = record.figures.get(metric, math.nan)
        if record.kind != "epoch" or record.epoch is None or math.isnan(value):
            return
        self.metric, self.epochs = metric, int(record.epochs or 0)
        sign = 1.0 if metric == "val_accuracy" else -1.0
        self.best = max(self.best, sign * value)
        self.values[int(record.epoch)] = self.best


def is_hopeless(course: Course, finished: Sequence[Course]) -> bool:
    """Whether a trial is worse than the median of the trials that have ended, at the same epoch:
    the median stopping rule."""
    if not course.values:
        return False
    epoch = max(course.values)
    others = [o.values[epoch] for o in finished if epoch in o.values and o.metric == course.metric]
    enough = any(epoch >= course.epochs * part and len(others) >= n for part, n in NEEDED)
    return enough and epoch < course.epochs and course.values[epoch] < median(others)
