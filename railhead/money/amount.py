"""An amount of US dollars that may be a range, and that names what has no known price. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal

from railhead.documents.lazy import dataclass

CENT = Decimal("0.01")


@dataclass(frozen=True)
class Amount:
    """From `low` to `high` USD, and besides it what `unknown` names, at an unknown price."""

    low: Decimal = Decimal(0)
    high: Decimal = Decimal(0)
    unknown: tuple[str, ...] = ()

    @classmethod
    def of(cls, usd: Decimal | int | str) -> Amount:
        """An amount that is known."""
        return cls(Decimal(usd), Decimal(usd))

    @property
    def known(self) -> bool:
        """Whether every part has a price."""
        return not self.unknown

    @property
    def exact(self) -> Decimal | None:
        """The amount; None for a range and for one with an unknown part."""
        return self.low if self.known and self.low == self.high else None

    def __add__(self, other: Amount) -> Amount:
        unknown = (*self.unknown, *other.unknown)
        return Amount(self.low + other.low, self.high + other.high, tuple(dict.fromkeys(unknown)))

    def __mul__(self, times: Decimal | int) -> Amount:
        """Nothing of an unknown price costs nothing."""
        if not times:
            return Amount()
        return Amount(self.low * times, self.high * times, self.unknown)

    def __str__(self) -> str:
        """`3.12 USD`, `1.76 to 2.10 USD`, `at least 3.12 USD; unknown: ...`, `unknown: ...`."""
        low, high = cents(self.low), cents(self.high)
        text = f"{low} USD" if low == high else f"{low} to {high} USD"
        if self.known:
            return f"less than {CENT} USD" if not high and self.high else text
        what = f"unknown: {', '.join(self.unknown)}"
        return f"at least {low} USD; {what}" if self.low else what


def cents(usd: Decimal) -> Decimal:
    """Rounded to the cent, half a cent up."""
    return usd.quantize(CENT, ROUND_HALF_UP)


def total(amounts: Iterable[Amount]) -> Amount:
    """The sum."""
    return sum(amounts, Amount())
