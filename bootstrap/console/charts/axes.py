"""Axes: from values to places, and the numbers beside them. Those of several decades are
logarithmic."""

from __future__ import annotations

import math
from collections.abc import Sequence

from railhead.documents.lazy import dataclass

SMALLEST = 1e-100  # a smaller span counts as zero: its ticks cannot be computed
DECADES = 100.0  # the largest value over the smallest one, from which an axis is logarithmic
SHARES = (1e-3, 1.0)  # accuracies and other shares stay linear


@dataclass(frozen=True)
class Axis:
    """The range of an axis."""

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def place(self, value: float) -> float:
        """Where a value is, from 0 to 1."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        """The numbers that are written."""
        return decades(self.low, self.high) if self.log else ticks(self.low, self.high, self.whole)


def axis(
    values: Sequence[float],
    *,
    from_zero: bool = False,
    whole: bool = False,
    log: bool = False,
    margin: float = 0.0,
) -> Axis:
    """The axis of these values. `log`: it may be logarithmic. `margin`: the free part at its
    ends."""
    low, high = min(values), max(values)
    shares = SHARES[0] <= low and high <= SHARES[1]
    if log and not from_zero and low > SMALLEST and high / low >= DECADES and not shares:
        wider = (high / low) ** margin
        return Axis(low / wider, high * wider, log=True)
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low <= max(abs(high) * 1e-12, SMALLEST):
        pad = abs(high) * 0.1 if abs(high) > SMALLEST else 1.0
        low, high = low - pad, high + pad
    low, high = low - margin * (high - low), high + margin * (high - low)
    return Axis(low, high, whole=whole)


def ticks(low: float, high: float, whole: bool = False) -> list[float]:
    """Round numbers from `low` to `high`, about five; `whole`: integers only."""
    span = max(high - low, 4.0 if whole else 0.0)
    step = 10.0 ** math.floor(math.log10(span / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 5)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, first + 12) if n * step <= high + step * 1e-9]


def decades(low: float, high: float) -> list[float]:
    """Powers of ten from `low` to `high`, at most six."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, -(-(last - first + 1) // 6))
    return [10.0**exponent for exponent in range(first, last + 1, step)]


def label(value: float) -> str:
    """A number on an axis."""
    if value and (abs(value) >= 1e6 or abs(value) < 1e-3):
        return f"{value:.1e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
