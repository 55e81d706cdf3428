"""Precision, recall and F1 of classes, from a confusion matrix. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Confusion = Sequence[Sequence[int]]  # [label][prediction], counts


def per_class(confusion: Confusion, names: Sequence[str]) -> list[dict[str, Any]]:
    """For each class its name, samples, precision, recall and F1.

    A value is None where nothing can be divided: the recall of a class without samples, the
    precision of a class that was never predicted.
    """
    return [_of_class(confusion, number, name) for number, name in enumerate(names)]


def means(classes: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The means of precision, recall and F1 over the classes that have samples, all weighted alike.

    A class that was never predicted counts as precision 0 and F1 0.
    """
    found = [item for item in classes if item["samples"]]
    if not found:
        return {}
    return {
        name: sum(item[name] or 0.0 for item in found) / len(found)
        for name in ("precision", "recall", "f1")
    }


def _of_class(confusion: Confusion, number: int, name: str) -> dict[str, Any]:
    right = confusion[number][number]
    samples = sum(confusion[number])
    predicted = sum(row[number] for row in confusion)
    return {
        "class": name,
        "samples": samples,
        "precision": _part(right, predicted),
        "recall": _part(right, samples),
        "f1": _part(2 * right, samples + predicted),
    }


def _part(count: int, of: int) -> float | None:
    return count / of if of else None
