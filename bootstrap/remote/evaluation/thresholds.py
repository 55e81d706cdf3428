"""Judges a run's metrics by its thresholds (--min, --max).

A threshold is {"metric": NAME, "bound": "min" or "max", "value": NUMBER}, as in run.json.
Pure; standard library only, Python 3.10.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

JUDGEMENT = ("thresholds", "failed", "passed")


def judged(
    evaluation: Mapping[str, Any], thresholds: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The evaluation with `thresholds`, `failed` (a sentence for each threshold that is not
    reached) and `passed`."""
    figures = {name: number(value) for name, value in evaluation.items()}
    failed = [why for item in thresholds if (why := _failure(item, figures))]
    passed = not failed and evaluation.get("passed") is not False
    return {**evaluation, "thresholds": list(thresholds), "failed": failed, "passed": passed}


def _failure(threshold: Mapping[str, Any], figures: Mapping[str, float | None]) -> str:
    """Why a threshold is not reached; "" if it is."""
    name, bound, limit = threshold["metric"], threshold["bound"], threshold["value"]
    option = f"--{bound} {name}={limit:g}"
    value = figures.get(name)
    if value is None:
        known = sorted(name for name, value in figures.items() if value is not None)
        return f"{option}: the run has no metric {name!r}; it has {', '.join(known) or 'none'}"
    if value < limit if bound == "min" else value > limit:
        return f"{name} {value:.4g} is {'below' if bound == 'min' else 'above'} {option}"
    return ""


def number(value: Any) -> float | None:
    """A finite number, or a text that is one; None for all else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None
