"""Checks a run's metrics against its thresholds (--min, --max). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from railhead.documents.lenient import finite
from railhead.documents.runs.evaluation import Judgement, Reported, Threshold

SHOWN = 10  # classes in a message
OF_ALL_CLASSES = ("precision", "recall", "f1", "auc")


def judged(reported: Reported, thresholds: Sequence[Threshold]) -> Judgement:
    """Whether an evaluation meets the thresholds. A figure over all classes meets no threshold if a
    class had no samples, because it says nothing about that class."""
    figures = {name: finite(value) for name, value in reported.values.items()}
    missing = reported.read().missing_classes
    failed = tuple(
        why for item in thresholds if (why := _without(item, missing) or _failure(item, figures))
    )
    verdict = reported.values.get("passed")  # the program's own verdict
    passed = (
        False if failed or verdict is False else True if thresholds or verdict is True else None
    )
    return Judgement(tuple(thresholds), failed, passed)


def _without(threshold: Threshold, classes: Sequence[str]) -> str:
    """Why a figure over all classes cannot be judged; "" if it can."""
    if not classes or threshold.metric not in OF_ALL_CLASSES:
        return ""
    names = f"class{'es' if len(classes) > 1 else ''} {', '.join(classes[:SHOWN])}"
    return f"{threshold.option}: the data has no sample of {names}, so it is not judged"


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
