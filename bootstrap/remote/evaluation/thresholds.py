"""Checks a run's metrics against its thresholds (--min, --max). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from railhead.documents.lenient import finite
from railhead.documents.runs.evaluation import Judgement, Reported, Threshold


def judged(reported: Reported, thresholds: Sequence[Threshold]) -> Judgement:
    """Whether an evaluation meets the thresholds."""
    figures = {name: finite(value) for name, value in reported.values.items()}
    failed = tuple(why for item in thresholds if (why := _failure(item, figures)))
    passed = not failed and reported.values.get("passed") is not False
    return Judgement(tuple(thresholds), failed, passed)


def _failure(threshold: Threshold, figures: Mapping[str, float | None]) -> str:
    """Why a threshold is not reached; "" if it is."""
    name, limit = threshold.metric, threshold.value
    value = figures.get(name)
    if value is None:
        known = ", ".join(sorted(name for name, value in figures.items() if value is not None))
        return f"{threshold.option}: the run has no metric {name!r}; it has {known or 'none'}"
    is_min = threshold.bound == "min"
    if value < limit if is_min else value > limit:
        return f"{name} {value:.4g} is {'below' if is_min else 'above'} {threshold.option}"
    return ""
