"""A line of metrics.jsonl, which the program of a run may have written: nothing in it is refused.

A key without a field counts as a figure.
"""

from __future__ import annotations

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass
from railhead.documents.lenient import Integer, Number, Numbers, Shown, Text, finite

# What a program may report: kind -> its keys, for docs/architecture.md.
KINDS = {
    "message": "`text`",
    "start": "`step`, `epoch` after which the built-in training begins; or `since`, a time. Curves"
    " leave earlier records of later steps out",
    "first_step": "no keys: a script has completed the first step of an attempt",
    "progress": "`epoch`, `epochs`, `step`, `steps`, `loss`, `learning_rate`, `samples_per_s` (all"
    " ranks), `seconds_left`, `step_s`, `input_s`",
    "epoch": "`epoch`, `epochs`, `loss`, `accuracy` (or `mae`, `binary_accuracy`), `val_...` of"
    " held-out samples, `learning_rate`, `samples_per_s`, `step_s`, `input_s`;"
    " `name` `output`: read from what Keras printed",
    "validation": "inside an epoch: `epoch`, `step`, `val_loss`, `val_accuracy`, further metrics",
    "evaluation": "as [`evaluation.json`](tasks-results.md#thresholds), without the values by class"
    " and by sample",
    "checkpoint": "a complete one: its `step`, `pause_s` (the training stood still), `write_s`"
    " (until it was complete)",
    "stall": "`text`: which rank the others wait for; `seconds` without a step; without `rank` and"
    " `host`",
    "long_step": "as a stall, of a rank that may still work",
    "carbon": "of all hosts so far, once a minute: `kwh`, `gco2e`",
    "metric": "`name` and `value` of a `--metric`; `number` counts its values from 1",
}


@dataclass(frozen=True)
class Record:
    """`time` is in seconds since 1970, None if a number is missing. `number` counts the values
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
