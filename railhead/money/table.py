"""Rows of prices, and the tables that Railhead ships: one file per cloud in `prices`.

`prices/sources.csv` has the address and the licence of each source. A price is that of exactly one
row; otherwise it is unknown, and the reason has the rows that match.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from decimal import Decimal
from functools import cache
from pathlib import Path

from railhead.documents.lazy import dataclass, replace

from .amount import total
from .bill import Price, Rate, UnknownPrice

FOLDER = Path(__file__).parent / "prices"
ON_DEMAND, SPOT = "on demand", "spot"
EVERYWHERE = "all"  # the region of a price that is the same in all regions
OBJECTS, ADDRESS, SENT = ("objects", "standard"), ("address", "public"), ("traffic", "out")


@dataclass(frozen=True)
class Row:
    """A price of a cloud, in texts, as a table and a kept answer of a cloud have it.

    Attributes:
        kind: `machine`, `vcpu` (with its memory), `gpu` (attached to a machine), `disk`, its
            `throughput` and `iops` beyond what it includes, `address`, `objects` or `traffic`.
        item: the machine type, its family, the type of GPU or of disk.
        market: `on demand` or `spot`; empty if there is no difference.
        usd, high: the price, or the lowest and the highest of a range; otherwise `high` is empty.
        day: when it was read: 2026-07-20, 2026-07 or 2026, as it is known.
    """

    kind: str
    item: str
    region: str
    market: str
    usd: str
    high: str
    unit: str
    day: str
    source: str

    def is_for(self, kind: str, item: str, region: str, market: str) -> bool:
        """Whether this is the price of an item in a region."""
        here = self.region in (region, EVERYWHERE) and self.market in (market, "")
        return here and (self.kind, self.item) == (kind, item)

    @property
    def price(self) -> Price:
        """As a price."""
        name = name_of(self.kind, self.item, self.region, spot=self.market == SPOT)
        high = Decimal(self.high or self.usd)
        return Price(name, Decimal(self.usd), high, self.unit, self.day, self.source)

    def __str__(self) -> str:
        place = " ".join(filter(None, (self.item, self.market, self.region)))
        return f"{place}: {self.price}"


@dataclass(frozen=True)
class Rates:
    """Prices of a cloud. `others` are used for what `rows` lack: a table, after the cloud's own
    answers."""

    rows: tuple[Row, ...]
    others: Rates | None = None

    def rate(self, kind: str, item: str, region: str | None, *, spot: bool = False) -> Rate:
        """The price of one item."""
        market = SPOT if spot else ON_DEMAND
        rows = [row for row in self.rows if row.is_for(kind, item, region or "", market)]
        if not rows and self.others:
            return self.others.rate(kind, item, region, spot=spot)
        return only(rows, name_of(kind, item, region, spot=spot))

    def machine(
        self,
        name: str,
        region: str | None,
        gpus: tuple[str, int] | None = None,
        vcpus: int | None = None,
        *,
        spot: bool,
    ) -> Rate:
        """The price of a machine with its GPUs, a type and a number. If the type has no row, its
        vCPUs (as many as the last number of its name, unless given) and GPUs are added up."""
        rates, (family, _, last) = replace(self, others=None), name.rpartition("-")
        whole = rates.rate("machine", name, region, spot=spot)
        vcpus = vcpus or (int(last) if last.isdecimal() else None)
        if vcpus and family in {row.item for row in self.rows} and isinstance(whole, UnknownPrice):
            parts = [(rates.rate("vcpu", family, region, spot=spot), vcpus)]
            if gpus:
                parts.append((rates.rate("gpu", gpus[0], region, spot=spot), gpus[1]))
            whole = composed(whole.what, parts)
        if isinstance(whole, UnknownPrice) and whole.is_missing and self.others:
            return self.others.machine(name, region, gpus, vcpus, spot=spot)
        return whole


def only(rows: list[Row], name: str) -> Rate:
    """The price of the one row; unknown for none and for several."""
    if len(rows) == 1:
        return rows[0].price
    several = f"{len(rows)} rows match: {'; '.join(map(str, rows))}"
    return UnknownPrice(name, several) if rows else UnknownPrice(name)


def composed(name: str, parts: Iterable[tuple[Rate, int]]) -> Rate:
    """The sum of several prices per hour, each times a number; unknown if one of them is. Its day
    is the oldest."""
    parts = list(parts)
    for rate, _ in parts:
        if isinstance(rate, UnknownPrice):
            return UnknownPrice(name, rate.why)
    prices = [rate for rate, _ in parts if isinstance(rate, Price)]
    amount = total(rate.amount * number for rate, number in parts)
    sources = ", ".join(dict.fromkeys(price.source for price in prices))
    return Price(name, amount.low, amount.high, "h", min(price.day for price in prices), sources)


def name_of(kind: str, item: str, region: str | None, *, spot: bool = False) -> str:
    """What is priced, in words: `spot price of g5.xlarge in eu-west-1`."""
    items = {"machine": item, "vcpu": f"a vCPU of {item}", "disk": f"a {item} disk"}
    items |= {"objects": "a bucket", "traffic": "traffic out"}
    items |= {speed: f"{speed} of a {item} disk" for speed in ("throughput", "iops")}
    market = f"{SPOT} " if spot else ""
    place = "" if region == EVERYWHERE else f" in {region or 'no region'}"
    return f"{market}price of {items.get(kind, f'{kind} {item}')}{place}"


@cache
def shipped(cloud: str) -> Rates:
    """The table of a cloud; empty for a cloud without one."""
    path = FOLDER / f"{cloud}.csv"
    return Rates(tuple(map(_named, _lines(path))) if path.is_file() else ())


@cache
def sources() -> dict[str, dict[str, str]]:
    """Name, licence and address of each source, by its key."""
    return {line["source"]: line for line in _lines(FOLDER / "sources.csv")}


def _named(line: dict[str, str]) -> Row:
    row = Row(**line)
    return replace(row, source=sources()[row.source]["name"])


def _lines(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))
