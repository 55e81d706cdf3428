"""A line of metrics.jsonl, which the program of a run may have written: nothing in it is refused.

The keys of each kind are in docs/architecture.md. A key without a field counts as a figure.
"""

from __future__ import annotations

from dataclasses import dataclass

from railhead.documents.codec import key
from railhead.documents.lenient import Integer, Number, Numbers, Shown, Text, finite


@dataclass(frozen=True)
class Record:
    """`time` is in seconds since 1970, None where a number is missing. `number` counts the values
    of a metric from 1; `since`, of a `start`, is a time; `figures` are all other numbers, which may
    be NaN: `loss`, `val_accuracy`, `samples_per_s`, ..., and `value` of a metric."""

    kind: Text = ""
    rank: Integer = None
    host: Text = ""
    time: Number = None
    epoch: Number = None
    epochs: Number = None
    step: Number = None
    steps: Number = None
    number: Number = None
    since: Number = None
    name: Shown = ""
    text: Shown = ""
    figures: Numbers = key({}, rest=True)

    def figure(self, name: str) -> float | None:
        """A figure, if it is there and finite."""
        return finite(self.figures.get(name))
