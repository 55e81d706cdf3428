"""Types of keys that a user's script may have written: unfit values are left out, not refused.

A number may also be a text that contains one ("0.5": JSON has a script's own types as texts).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from railhead.documents.codec import Malformed, decode

T = TypeVar("T")


def number(value: Any) -> float | None:
    """A number, also from a text, including NaN; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):  # JSON has no largest integer
        return None


def finite(value: Any) -> float | None:
    """A number as `number` has it, if it is finite."""
    parsed = number(value)
    return parsed if parsed is not None and math.isfinite(parsed) else None


def numbers(values: Mapping[str, Any]) -> Mapping[str, float]:
    """The numbers of a mapping."""
    parsed = {name: number(value) for name, value in values.items()}
    return {name: value for name, value in parsed.items() if value is not None}


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _shown(value: Any) -> str:
    return "" if value is None else str(value)


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()


def _rows(value: Any) -> tuple[tuple[float | None, ...], ...]:
    rows = value if isinstance(value, (list, tuple)) else ()
    return tuple(tuple(map(finite, row)) if isinstance(row, (list, tuple)) else () for row in rows)


def each(kind: type[T]) -> Callable[[Any], tuple[T, ...]]:
    """Reads a list of documents; those that do not fit are left out."""

    def read(value: Any) -> tuple[T, ...]:
        documents = []
        for item in value if isinstance(value, (list, tuple)) else ():
            try:
                documents.append(decode(kind, item))
            except Malformed:
                continue
        return tuple(documents)

    return read


Number = Annotated[float | None, finite]
Numbers = Annotated[Mapping[str, float], numbers]
Integer = Annotated[int | None, _integer]
Flag = Annotated[bool | None, _flag]
Text = Annotated[str, _text]
Shown = Annotated[str, _shown]  # of any type, as text
Rows = Annotated[tuple[tuple[float | None, ...], ...], _rows]
Texts = Annotated[tuple[str, ...], _texts]
