"""The options about metrics, validated. Pure.

`--metric NAME=REGEX`: numbers in the output of a script that become records. `--min NAME=VALUE` and
`--max NAME=VALUE`: thresholds of the evaluation.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bootstrap.errors import UsageError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,63}")
MOST_METRICS = 16  # of each option
RULE = "--metric NAME=REGEX, with one group around the number: loss='loss: ([0-9.]+)'"


def read_metric(text: str) -> tuple[str, str]:
    """The name and the pattern of one `--metric`.

    Raises:
        UsageError: it has no name, the pattern is not a regular expression, or it has not exactly
            one group.
    """
    name, equals, pattern = text.partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise UsageError(f"--metric {text!r}: {RULE}")
    try:
        groups = re.compile(pattern).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"--metric {name}: {pattern!r} is not a regular expression: {error}"
        ) from None
    if groups != 1:
        raise UsageError(f"--metric {name}: {pattern!r} has {groups} groups: {RULE}")
    return name, pattern


@dataclass(frozen=True)
class Threshold:
    """A metric of a run's evaluation must be at least (`min`) or at most (`max`) a value."""

    metric: str
    bound: str
    value: float

    def document(self) -> dict[str, Any]:
        """An entry of `thresholds` in run.json."""
        return asdict(self)


def read_thresholds(mins: Sequence[str], maxs: Sequence[str]) -> tuple[Threshold, ...]:
    """The thresholds of a command.

    Raises:
        UsageError: one is not NAME=NUMBER, or is given twice.
    """
    found = [_read_threshold("min", text) for text in mins] + [
        _read_threshold("max", text) for text in maxs
    ]
    names = [(item.bound, item.metric) for item in found]
    if len({*names}) < len(names) or len(found) > MOST_METRICS:
        raise UsageError(f"--min, --max: at most {MOST_METRICS}, each metric once for each")
    return tuple(found)


def require_metrics(thresholds: Iterable[Threshold], choices: Sequence[str]) -> None:
    """UsageError for a threshold on a metric that the evaluation will not have."""
    for item in thresholds:
        if item.metric not in choices:
            near = difflib.get_close_matches(item.metric, choices, n=1)
            guess = f" Did you mean {near[0]}?" if near else ""
            raise UsageError(
                f"--{item.bound} {item.metric}: no such metric.{guess} "
                f"Choices: {', '.join(choices)}"
            )


def _read_threshold(bound: str, text: str) -> Threshold:
    name, equals, value = text.partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise UsageError(f"--{bound} {text!r}: write NAME=NUMBER", hint=f"--{bound} accuracy=0.97")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"--{bound} {text!r}: {value!r} is not a finite number")
    return Threshold(name, bound, number)
