"""The prices of a region: AWS Price List, and the history of spot prices.

The Price List has entries that are not what a stack starts: Capacity Blocks, other systems, other
tenancies. The filters leave them out, and such an entry is not used if it comes nevertheless. This
needs the rights `pricing:GetProducts` and `ec2:DescribeSpotPriceHistory`; the calls are free.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from railhead.documents.clouds import COMMON_FACTS
from railhead.documents.codec import decode, key
from railhead.documents.lazy import dataclass
from railhead.money.bill import Price, Step
from railhead.money.table import ON_DEMAND, SPOT, Row, name_of

from ...errors import RailheadError
from ..base import SET_PRICE, SpotOffer
from .client import AwsClient, connect, items

LISTED_IN = "us-east-1"  # the interface exists in a few regions, for all
SOURCE, SPOT_SOURCE = "AWS price list", "AWS spot price history"
LONGEST_FILTER = 1000  # characters of the value of one
HISTORY = timedelta(days=90)  # EC2 has no older prices: an older one is not valid
COMPUTE = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
DISK_FAMILIES = {
    "Storage": "disk",
    "Provisioned Throughput": "throughput",
    "System Operation": "iops",
}
UNITS = {  # AWS's unit: our unit, and how many of ours it has
    "Hrs": ("h", 1),
    "GB-Mo": ("GB-month", 1),
    "GiBps-mo": ("MiBps-month", 1024),
    "IOPS-Mo": ("IOPS-month", 1),
}


@dataclass(frozen=True)
class Dimension:
    """A tier of a price."""

    unit: str
    pricePerUnit: Mapping[str, str]
    beginRange: str = "0"
    endRange: str = "Inf"


@dataclass(frozen=True)
class Term:
    """An offer; its tiers by their codes."""

    priceDimensions: Mapping[str, Dimension]


@dataclass(frozen=True)
class Product:
    """What is sold; IOPS and throughput of a disk are of other families than its storage."""

    attributes: Mapping[str, str]
    productFamily: str = ""


@dataclass(frozen=True)
class Entry:
    """One text of `PriceList`."""

    product: Product
    terms: Mapping[str, Term] = key({}, path="OnDemand")  # by their codes


@dataclass(frozen=True)
class SpotPrice:
    """The price in a zone from a time on."""

    InstanceType: str
    SpotPrice: str
    Timestamp: Any  # a datetime
    AvailabilityZone: str = ""


def rows(region: str, types: Collection[str], now: datetime | None = None) -> list[Row]:
    """The prices of machine types and of the stacks' disks in a region. RailheadError: AWS does not
    answer, refuses, or a page is missing: a partial list is not used."""
    now = now or datetime.now(timezone.utc)
    listed, local = connect(LISTED_IN), connect(region)
    name = COMMON_FACTS["aws"].disk_type
    disk = {"volumeApiName": name, "regionCode": region}
    return [
        *_machines(listed, region, types, now),
        *(
            _row(DISK_FAMILIES[family], name, region, "", entry, now)
            for entry in _entries(listed, disk)
            if (family := entry.product.productFamily) in DISK_FAMILIES
        ),
        *spot_rows(local, region, types, now),
    ]


def _machines(
    client: AwsClient, region: str, types: Collection[str], now: datetime
) -> Iterator[Row]:
    for names in _in_parts(sorted(types)):
        for entry in _entries(client, {**COMPUTE, "regionCode": region}, names):
            name = entry.product.attributes.get("instanceType", "")
            if name in types:
                yield _row("machine", name, region, ON_DEMAND, entry, now)


def _in_parts(names: list[str]) -> Iterator[str]:
    """The names for ANY_OF filters, separated by commas."""
    value = ""
    for name in names:
        if len(value) + len(name) >= LONGEST_FILTER:
            yield value
            value = ""
        value = f"{value},{name}" if value else name
    if value:
        yield value


def _entries(client: AwsClient, attributes: Mapping[str, str], types: str = "") -> Iterator[Entry]:
    """The entries with these attributes; if machine types are given, only theirs."""
    filters = [{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in attributes.items()]
    if types:
        filters.append({"Type": "ANY_OF", "Field": "instanceType", "Value": types})
    named = ("pricing", "get_products", "PriceList")
    listed = items(
        str, client, *named, ServiceCode="AmazonEC2", Filters=filters, FormatVersion="aws_v1"
    )
    for entry in map(_entry, listed):
        if attributes.items() <= entry.product.attributes.items():
            yield entry


def _entry(text: str) -> Entry:
    subject = "an entry of AWS's price list"
    try:
        values = json.loads(text)
    except ValueError:
        raise RailheadError(f"{subject} is not JSON", hint=SET_PRICE) from None
    return decode(Entry, values, what=subject, error=RailheadError)


def _row(kind: str, item: str, region: str, market: str, entry: Entry, now: datetime) -> Row:
    """The row of an entry with one price for any amount. RailheadError: it has tiers, another
    currency or another unit."""
    tiers = [tier for term in entry.terms.values() for tier in term.priceDimensions.values()]
    if len(tiers) != 1 or (tiers[0].beginRange, tiers[0].endRange) != ("0", "Inf"):
        raise RailheadError(
            f"AWS's price of {item} in {region} has {len(tiers)} tiers", hint=SET_PRICE
        )
    tier = tiers[0]
    if "USD" not in tier.pricePerUnit or tier.unit not in UNITS:
        raise RailheadError(
            f"AWS's price of {item} in {region} is not in USD per hour or month", hint=SET_PRICE
        )
    unit, ours = UNITS[tier.unit]
    usd = f"{Decimal(number(tier.pricePerUnit['USD'], item)) / ours:f}"
    return Row(kind, item, region, market, usd, "", unit, f"{now:%Y-%m-%d}", SOURCE)


def number(text: str, item: str) -> str:
    """A price as the texts of rows have it; RailheadError for another text."""
    try:
        value = Decimal(text)
    except ArithmeticError:
        value = Decimal(-1)
    if not (value.is_finite() and 0 <= value < 10**6):
        raise RailheadError(
            f"the price of {item} is {text[:20]!r}, not a number of USD", hint=SET_PRICE
        )
    return f"{value.normalize():f}"


def spot_rows(
    client: AwsClient, region: str, types: Collection[str], now: datetime
) -> Iterator[Row]:
    """The current spot prices: from the lowest to the highest of all zones."""
    prices: dict[str, list[str]] = {}
    for spot in _spot_prices(client, types, StartTime=now):
        name = spot.InstanceType
        if now - spot.Timestamp < HISTORY and name in types:
            prices.setdefault(name, []).append(number(spot.SpotPrice, name))
    for name, each in prices.items():
        low, high = min(each, key=Decimal), max(each, key=Decimal)
        day = f"{now:%Y-%m-%d}"
        yield Row("machine", name, region, SPOT, low, high, "h", day, SPOT_SOURCE)


def _spot_prices(client: AwsClient, types: Collection[str], **query: Any) -> Iterator[SpotPrice]:
    """EC2's spot prices of machine types."""
    named = ("ec2", "describe_spot_price_history", "SpotPriceHistory")
    query |= {"InstanceTypes": sorted(types), "ProductDescriptions": ["Linux/UNIX"]}
    return items(SpotPrice, client, *named, **query)


def spot_history(
    region: str, offers: Collection[SpotOffer], since: datetime, now: datetime | None = None
) -> dict[SpotOffer, Sequence[Step]]:
    """The prices of spot machines since a time, or in the last HISTORY, one for each change; the
    first is the price at the start. RailheadError: AWS does not answer, refuses, or a page is
    missing."""
    now = now or datetime.now(timezone.utc)
    start = max(since, now - HISTORY)
    history: dict[SpotOffer, list[Step]] = {}
    zones = [{"Name": "availability-zone", "Values": sorted({offer.zone for offer in offers})}]
    types = {offer.machine_type for offer in offers}
    times = {"StartTime": start, "EndTime": now}
    for spot in _spot_prices(connect(region), types, Filters=zones, **times):
        offer = SpotOffer(spot.InstanceType, spot.AvailabilityZone)
        if offer in offers and start - spot.Timestamp < HISTORY:
            usd = Decimal(number(spot.SpotPrice, spot.InstanceType))
            name = name_of("machine", offer.machine_type, offer.zone, spot=True)
            price = Price(name, usd, usd, "h", f"{spot.Timestamp:%Y-%m-%d}", SPOT_SOURCE)
            history.setdefault(offer, []).append(Step(max(spot.Timestamp, start), price))
    return {offer: tuple(steps) for offer, steps in history.items()}
