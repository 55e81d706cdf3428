"""Labels as people write them, the classes that they stand for, and probable mistakes in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from ...tasks import Task
from .. import DataError

# As programs write numbers. Codes such as `1_1` and `0e1` are names, though Python reads numbers.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]\d{1,4})?")
DIGITS = 28  # that a Decimal keeps; a longer number is a name like any other
FEW = 20  # classes: up to this number is never doubtful
# Of each class on average: with fewer, the labels are probably not meant as classes.
SAMPLES_OF_NUMBER, SAMPLES_OF_TEXT = 5, 2
SHOWN = 10  # names in a message


def numbered(labels: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
    """The class of each label, int64 [samples], and the names of the classes in order."""
    names = {text: name_of(text) for text in set(labels)}
    classes = tuple(sorted(set(names.values()), key=_by_value))
    numbers = {name: number for number, name in enumerate(classes)}
    return np.array([numbers[names[text]] for text in labels], np.int64), classes


def name_of(label: str) -> str:
    """The name of a label's class. Equal numbers have one name: `1`, `1.0` and `01` are `1`."""
    value = _number(label)
    return label.strip() if value is None else format(value.normalize() + 0, "f")  # -0 is 0


def is_number(name: str) -> bool:
    """Whether the name of a class is a number."""
    return _number(name) is not None


def _number(label: str) -> Decimal | None:
    text = label.strip()
    if not NUMBER.fullmatch(text):
        return None
    value = Decimal(text)
    small = abs(value.adjusted()) < DIGITS and len(value.as_tuple().digits) <= DIGITS
    return value if small else None


def _by_value(name: str) -> tuple[Decimal, str]:
    """Numbers in their order, then texts."""
    value = _number(name)
    return (Decimal("inf"), name) if value is None else (value, "")


def check_classes(samples: Any, task: Task, label: str) -> list[str]:
    """What to say about the classes of some training data.

    Raises:
        DataError: they look like numbers to be predicted, or like names of the samples.
    """
    labels = getattr(samples, "labels", None)
    if task.metric != "accuracy" or labels is None or np.ndim(labels) != 1:
        return []
    names, count = samples.classes, len(labels)
    if names:
        _refuse_too_many(names, count, samples.source, label)
        counts = np.bincount(labels, minlength=len(names))
        return _spellings(names, counts, samples.source)
    if labels.dtype.kind not in "biu":
        return []
    there = np.unique(labels)
    highest = int(there[-1])
    if highest >= FEW and 2 * len(there) <= highest:
        raise DataError(
            f"{samples.source} has labels from {there[0]} to {highest}, and {len(there)} of them "
            "occur: is it task=regression? Classes count from 0"
        )
    missing = sorted(set(range(highest + 1)) - set(there.tolist()))
    if not missing:
        return []
    text = ", ".join(map(str, missing[:SHOWN]))
    of = f"{len(missing)} of {highest + 1} classes"
    return [f"{samples.source}: {of} have no sample: {text}. Classes count from 0"]


def _refuse_too_many(names: Sequence[str], count: int, source: str, label: str) -> None:
    numbers = all(is_number(name) for name in names)
    least = SAMPLES_OF_NUMBER if numbers else SAMPLES_OF_TEXT
    if len(names) <= FEW or count >= least * len(names):
        return
    counted = f"{source} has {len(names)} classes in {count} samples"
    if numbers:
        raise DataError(f"{counted}, the numbers {names[0]} to {names[-1]}: is it task=regression?")
    raise DataError(f"{counted}, such as {names[0]!r}: is {label!r} the column of the labels?")


def _spellings(names: Sequence[str], counts: Any, source: str) -> list[str]:
    """Classes whose names differ in case or spaces only."""
    same: dict[str, list[str]] = {}
    for name, count in zip(names, counts.tolist(), strict=True):
        same.setdefault("".join(name.casefold().split()), []).append(f"{name!r} ({count})")
    groups = [" and ".join(group) for group in same.values() if len(group) > 1]
    return [f"{source}: different classes: {'; '.join(groups[:SHOWN])}"] if groups else []
