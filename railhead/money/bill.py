"""Bills: prices x the times for which things existed. Pure; times are UTC.

Both clouds bill a machine by the second after the first minute, from start to stop, and a disk and
an address until they are deleted. A month has 730 hours, as in both clouds' bills.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from railhead.documents.lazy import dataclass

from .amount import Amount, total

FIRST_MINUTE = timedelta(minutes=1)
HOURS_A_MONTH = 730
MISSING = "no table and no answer of the cloud has it"
MONTHLY = ("GB-month", "MiBps-month", "IOPS-month")
HOURS = {"h": Decimal(1), **dict.fromkeys(MONTHLY, Decimal(HOURS_A_MONTH))}  # in one unit


@dataclass(frozen=True)
class Price:
    """One price: from `low` to `high` USD for each `unit` of `what`.

    Attributes:
        unit: a key of HOURS, or `GB` for what is sent once.
        day: when it was read, 2026-07-20.
        source: where it was read.
    """

    what: str
    low: Decimal
    high: Decimal
    unit: str
    day: str
    source: str

    @property
    def amount(self) -> Amount:
        """For one unit."""
        return Amount(self.low, self.high)

    @property
    def figure(self) -> str:
        """`0.2 to 0.216 USD per h`."""
        value = f"{self.low.normalize():f}"
        high = f" to {self.high.normalize():f}" if self.high != self.low else ""
        return f"{value}{high} USD per {self.unit}"

    def __str__(self) -> str:
        origin = ", ".join(filter(None, (self.source, self.day)))
        return self.figure + (f" ({origin})" if origin else "")


@dataclass(frozen=True)
class UnknownPrice:
    """There is no price, or not exactly one: then `why` has the rows that match."""

    what: str
    why: str = MISSING

    unit = "h"

    @property
    def is_missing(self) -> bool:
        """Whether there is no price, in contrast to several."""
        return self.why == MISSING

    @property
    def amount(self) -> Amount:
        """Unknown, by its name."""
        return Amount(unknown=(self.what,))

    def __str__(self) -> str:
        return self.why


Rate = Price | UnknownPrice


@dataclass(frozen=True)
class Existence:
    """Something existed from `start` to `end` (None: it still exists): `quantity` units at one
    rate."""

    name: str
    rate: Rate
    start: datetime
    end: datetime | None = None
    quantity: Decimal = Decimal(1)
    least: timedelta = timedelta(0)


@dataclass(frozen=True)
class Step:
    """A price that applies from `start` until the next step, such as a spot price."""

    start: datetime
    rate: Rate


def at_steps(existence: Existence, steps: Sequence[Step], now: datetime) -> list[Existence]:
    """An existence in parts, each at the price of its time. Before the first step its own rate
    applies."""
    end = _end(existence, now)
    ordered = sorted((step for step in steps if step.start < end), key=lambda step: step.start)
    starts = [existence.start, *(max(step.start, existence.start) for step in ordered), end]
    rates = [existence.rate, *(step.rate for step in ordered)]
    return [
        Existence(existence.name, rate, start, until, existence.quantity)
        for rate, start, until in zip(rates, starts[:-1], starts[1:], strict=True)
        if start < until
    ]


def bill(existences: Iterable[Existence], now: datetime) -> Amount:
    """What these have cost up to `now`: `at least`, if a price is unknown."""
    return total(_cost(existence, now) for existence in existences)


def _cost(existence: Existence, now: datetime) -> Amount:
    """If clocks differ, the end may be before the start: this counts as no time."""
    seconds = max(_end(existence, now) - existence.start, timedelta(0)) / timedelta(seconds=1)
    hours = Decimal(str(seconds)) / 3600
    units = existence.quantity * hours / HOURS[existence.rate.unit]
    return existence.rate.amount * units


def _end(existence: Existence, now: datetime) -> datetime:
    end = now if existence.end is None else existence.end
    return max(end, existence.start + existence.least)


def hours_for(budget: Decimal, per_hour: Amount, spent: Amount) -> Decimal | None:
    """How many hours a budget lasts, at the higher price of a range; None if a price is
    unknown, and zero if it is spent. None also for a price of zero, whose budget never ends."""
    if not (per_hour.known and spent.known) or not per_hour.high:
        return None
    return max(Decimal(0), (budget - spent.high) / per_hour.high)
