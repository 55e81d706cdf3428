"""Costs that continue while the instances are stopped: disks, and a bucket's content.

Prices are those of railhead/money; no amount is shown for an unknown price.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from railhead.money.amount import total
from railhead.money.bill import HOURS, Rate
from railhead.money.host import DiskSpec, disk_parts
from railhead.money.table import OBJECTS, shipped

from ..errors import Command
from .base import Cost
from .storage import GB, BucketContents, NoBucket, Store, count_objects, describe_contents


def per_day(rate: Rate, quantity: int | Decimal = 1) -> float | None:
    """USD per day of a quantity; None for an unknown price, and for a range."""
    usd = (rate.amount * Decimal(24 * quantity)).exact
    return None if usd is None else float(usd / HOURS[rate.unit])


def disk_per_day(disk: DiskSpec, cloud: str, kind: str, region: str | None) -> float | None:
    """USD per day of a disk; None for an unknown price."""
    parts = disk_parts(disk, cloud, kind, region, shipped(cloud))
    usd = (total(part.per_hour for part in parts) * 24).exact
    return None if usd is None else float(usd)


def bucket_rate(cloud: str, region: str | None) -> Rate:
    """The price of a bucket's content."""
    return shipped(cloud).rate(*OBJECTS, region)


def bucket_per_day(cloud: str, region: str | None, contents: BucketContents) -> float | None:
    """USD per day of a bucket's content; None if it was not counted to the end."""
    gigabytes = Decimal(contents.size) / GB
    return per_day(bucket_rate(cloud, region), gigabytes) if contents.whole else None


def disk(description: str, usd_per_day: float | None) -> Cost:
    """A disk of a stack."""
    return Cost(description, usd_per_day, Command("teardown", destroy=True))


def bucket(store: Store, region: str | None, cloud: str) -> Iterator[Cost]:
    """A bucket's content with all versions, as all are billed; none if it does not exist."""
    try:
        contents = count_objects(store)
    except NoBucket:
        return
    rate = bucket_rate(cloud, region)
    month = (rate.amount * (Decimal(contents.size) / GB)).exact if contents.whole else None
    yield Cost(
        f"bucket {store.url}, {describe_contents(contents)}",
        None if month is None else float(month),
        Command("teardown", destroy=True, with_bucket=True),
        per="month",
        source="" if month is None else str(rate),
    )
