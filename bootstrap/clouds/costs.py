"""Costs that continue while the instances are stopped: disks, and a bucket's content.

Prices are in USD per GB and month, in the `instances` of each cloud; where one is not known, no
amount is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from railhead.documents.lazy import dataclass

from ..errors import Command
from .base import Cost
from .storage import GB, NoBucket, Store, count_objects, describe_contents

DAYS = 30.4  # in a month


@dataclass(frozen=True)
class Prices:
    """The price of a GB per month, by region; `source` names the price list and its date."""

    by_region: Mapping[str, float]
    source: str


def disk(what: str, gigabytes: int, price: float | None) -> Cost:
    """A disk at a price per GB and month; None where that is not known."""
    per_day = None if price is None else gigabytes * price / DAYS
    return Cost(what, per_day, Command("teardown", destroy=True))


def bucket(store: Store, region: str | None, prices: Prices) -> Iterator[Cost]:
    """A bucket's content with all versions, as all are billed; none if it does not exist."""
    try:
        contents = count_objects(store)
    except NoBucket:
        return
    price = prices.by_region.get(region or "")
    known = price is not None and contents.whole
    size = describe_contents(contents)
    yield Cost(
        f"bucket {store.url}, {size}",
        contents.size / GB * price if known and price else None,
        Command("teardown", destroy=True, with_bucket=True),
        per="month",
        source=f"{price:g} USD per GB in {region}: {prices.source}" if known else "",
    )
