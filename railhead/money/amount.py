"""An amount of US dollars that may be a range, and that names what has no known price. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal

from railhead.documents.lazy import dataclass


@dataclass(frozen=True)
class Amount:
    """From `low` to `high` USD, plus the things in `unknown`, whose price is unknown."""

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
        """Zero units cost nothing, even at an unknown price."""
        if not times:
            return Amount()
        return Amount(self.low * times, self.high * times, self.unknown)

    def __str__(self) -> str:
        return self.text()

    def text(self, per: str = "", digits: int = 2) -> str:
        """`3.12 USD`, `1.76 to 2.10 USD per hour`, `at least 3.12 USD; unknown: spot price of g5`,
        `unknown: spot price of g5`."""
        low, high = (f"{_rounded(usd, digits):f}" for usd in (self.low, self.high))
        unit = " ".join(filter(None, ("USD", per)))
        text = f"{low} {unit}" if low == high else f"{low} to {high} {unit}"
        if self.known:
            little = self.high and not _rounded(self.high, digits)
            return f"less than {Decimal(1).scaleb(-digits):f} {unit}" if little else text
        unknown = f"unknown: {', '.join(self.unknown)}"
        return f"at least {low} {unit}; {unknown}" if self.low else unknown


def _rounded(usd: Decimal, digits: int) -> Decimal:
    """Half a digit up."""
    return usd.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


def total(amounts: Iterable[Amount]) -> Amount:
    """The sum."""
    return sum(amounts, Amount())
