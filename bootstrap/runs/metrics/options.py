"""The options about metrics, validated. Pure.

`--metric NAME=REGEX`: numbers in a script's output that become records. `--min NAME=VALUE` and
`--max NAME=VALUE`: thresholds of the evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from railhead.documents.rule import nearest
from railhead.documents.runs.evaluation import Threshold
from railhead.documents.runs.run import Metric

from ...errors import UsageError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,63}")
MOST_METRICS = 16  # of each option
RULE = "--metric NAME=REGEX, with one group around the number: loss='loss: ([0-9.]+)'"


def read_metric(name: str, pattern: str) -> Metric:
    """One `--metric`, validated.

    Raises:
        UsageError: it has no name, the pattern is not a regular expression, or it does not have
            exactly one group.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"--metric {name!r}: {RULE}")
    try:
        groups = re.compile(pattern).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"--metric {name}: {pattern!r} is not a regular expression: {error}"
        ) from None
    if groups != 1:
        raise UsageError(f"--metric {name}: {pattern!r} has {groups} groups: {RULE}")
    return Metric(name, pattern)


def read_thresholds(
    minimum: Mapping[str, float], maximum: Mapping[str, float]
) -> tuple[Threshold, ...]:
    """The thresholds of a command; UsageError for a wrong metric name, or too many thresholds."""
    thresholds = [
        Threshold(name, bound, value)
        for bound, values in (("min", minimum), ("max", maximum))
        for name, value in values.items()
    ]
    for item in thresholds:
        if not _NAME.fullmatch(item.metric):
            rule = f"--{item.bound} {item.metric!r}: not the name of a metric"
            raise UsageError(rule, hint=f"--{item.bound} accuracy=0.97")
    if len(thresholds) > MOST_METRICS:
        raise UsageError(f"--min, --max: at most {MOST_METRICS}")
    return tuple(thresholds)


def require_metrics(thresholds: Iterable[Threshold], choices: Sequence[str]) -> None:
    """UsageError if a threshold is on a metric that the evaluation will not have."""
    for item in thresholds:
        if item.metric not in choices:
            near = nearest(item.metric, choices)
            guess = f" Did you mean {near}?" if near else ""
            raise UsageError(
                f"--{item.bound} {item.metric}: no such metric.{guess} "
                f"Choices: {', '.join(choices)}"
            )
