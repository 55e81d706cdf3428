"""Precision, recall and F1 of classes, from counts of samples. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Confusion = Sequence[Sequence[int]]  # [label][prediction], counts


@dataclass(frozen=True)
class Counts:
    """Of one class: samples with its label, samples predicted as this class, samples with both."""

    samples: int
    predicted: int
    right: int


def counts_of(confusion: Confusion) -> list[Counts]:
    """The counts of each class."""
    columns = zip(*confusion, strict=True)
    return [
        Counts(sum(row), sum(column), row[number])
        for number, (row, column) in enumerate(zip(confusion, columns, strict=True))
    ]


def per_class(counts: Sequence[Counts], names: Sequence[str]) -> list[dict[str, Any]]:
    """For each class its name, samples, precision, recall and F1.

    A value is None if nothing can be divided: the recall of a class without samples, the
    precision of a class that was never predicted.
    """
    return [
        {
            "class": name,
            "samples": count.samples,
            "precision": _part(count.right, count.predicted),
            "recall": _part(count.right, count.samples),
            "f1": _part(2 * count.right, count.samples + count.predicted),
        }
        for count, name in zip(counts, names, strict=True)
    ]


def means(classes: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The means of precision, recall and F1 over the classes that have samples, all weighted alike.

    A class that was never predicted counts as precision 0 and F1 0.
    """
    present = [item for item in classes if item["samples"]]
    if not present:
        return {}
    return {
        name: sum(item[name] or 0.0 for item in present) / len(present)
        for name in ("precision", "recall", "f1")
    }


def _part(count: int, of: int) -> float | None:
    return count / of if of else None
