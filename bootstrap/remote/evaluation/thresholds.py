"""Judges a run's metrics by its thresholds (--min, --max). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from railhead.documents.evaluation import Judgement, Threshold
from railhead.documents.lenient import finite


def judged(evaluation: Mapping[str, Any], thresholds: Sequence[Threshold]) -> Judgement:
    """Whether an evaluation, as a program wrote it, reaches the thresholds."""
    figures = {name: finite(value) for name, value in evaluation.items()}
    failed = tuple(why for item in thresholds if (why := _failure(item, figures)))
    passed = not failed and evaluation.get("passed") is not False
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
