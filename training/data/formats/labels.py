"""Labels as people write them, and the classes that they stand for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

# As programs write numbers. Codes such as `1_1` and `0e1` are names, though Python reads numbers.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]\d{1,4})?")
DIGITS = 28  # that a Decimal keeps; a longer number is a name like any other


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
