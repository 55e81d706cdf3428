"""The prices of a region: Google's Billing Catalog, some 30,000 SKUs, identified by their
descriptions.

A machine is sold as vCPUs, memory, GPUs, a disk and an address. A pattern matches a whole
description: "Balanced PD Capacity" is also a part of "Regional Balanced PD Capacity", at twice the
price. If two SKUs match, both become rows, and the price is refused with both. Whether a SKU is
spot is in its description; its usageType is wrong for some.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import datetime, timezone
from decimal import Decimal

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass
from railhead.money.table import ADDRESS, EVERYWHERE, ON_DEMAND, SPOT, Row

from ...errors import RailheadError
from ..base import SET_PRICE
from .client import GoogleClient, connect, endpoint

COMPUTE_ENGINE = "6F81-5844-456A"
SOURCE = "Google's billing catalog"
PAGE = 5000
GLOBAL = "global"
IS_SPOT = "Spot Preemptible"
# Family: the start of its SKUs, and GiB of memory for each vCPU.
FAMILIES = {
    "n1-standard": ("N1 Predefined Instance", Decimal("3.75")),
    "e2-standard": ("E2 Instance", Decimal(4)),
    "n2-standard": ("N2 Instance", Decimal(4)),
    "g2-standard": ("G2 Instance", Decimal(4)),
    "a2-highgpu": ("A2 Instance", Decimal(85) / 12),
}
GPUS = {
    "nvidia-tesla-t4": "Nvidia Tesla T4 GPU",
    "nvidia-tesla-v100": "Nvidia Tesla V100 GPU",
    "nvidia-l4": "Nvidia L4 GPU",
    "nvidia-a100": "Nvidia Tesla A100 GPU",
}
DISKS = {
    "pd-balanced": "Balanced PD Capacity",
    "pd-ssd": "SSD backed PD Capacity",
    "pd-standard": "Storage PD Capacity",
}
ADDRESSES = {ON_DEMAND: "a Standard VM", SPOT: f"a {IS_SPOT} VM"}


@dataclass(frozen=True)
class Money:
    """An amount: whole units as a text, and billionths. Google leaves out what is zero."""

    currencyCode: str = ""
    units: str = key("0", pattern=r"[0-9]{1,9}")
    nanos: int = key(0, at_least=0, at_most=999_999_999)

    @property
    def amount(self) -> Decimal:
        """As one number."""
        return int(self.units) + Decimal(self.nanos).scaleb(-9)


@dataclass(frozen=True)
class Tier:
    """A price from an amount of use on."""

    startUsageAmount: float = 0.0
    unitPrice: Money = Money()


@dataclass(frozen=True)
class Expression:
    """The tiers of a price, and their unit: h, GiBy.h, GiBy.mo."""

    usageUnit: str = ""
    tieredRates: tuple[Tier, ...] = ()


@dataclass(frozen=True)
class Pricing:
    """The price from a time on."""

    effectiveTime: str = ""
    pricingExpression: Expression = Expression()


@dataclass(frozen=True)
class Sku:
    """What is sold."""

    description: str = ""
    category: str = key("", path="usageType")  # OnDemand, Preemptible, Commit1Yr
    serviceRegions: tuple[str, ...] = ()
    pricingInfo: tuple[Pricing, ...] = ()


@dataclass(frozen=True)
class Pattern:
    """What a SKU must match: its whole description, and where and how it is sold."""

    text: str
    region: str
    market: str

    def fits(self, sku: Sku) -> bool:
        """Whether it is this SKU. A commitment for a year is another offer."""
        is_spot = IS_SPOT in sku.description
        return (
            is_spot == (self.market == SPOT)
            and not sku.category.startswith("Commit")
            and self.region in sku.serviceRegions
            and re.fullmatch(self.text, sku.description) is not None
        )


@dataclass(frozen=True)
class Catalogue:
    """The SKUs of Compute Engine that a pattern may match, and the day on which they were read."""

    skus: tuple[Sku, ...]
    day: str

    def rows(self, region: str) -> Iterator[Row]:
        """The rows of a region; there are none for what it does not sell."""
        for market in (ON_DEMAND, SPOT):
            for family, (start, memory) in FAMILIES.items():
                cores, rams = (
                    self._found(f"{start} {of}", region, market) for of in ("Core", "Ram")
                )
                for core in cores:
                    for ram in rams:
                        usd = price(core, "h") + memory * price(ram, "GiBy.h")
                        yield self._row("vcpu", family, region, market, usd)
            for name, start in GPUS.items():
                for gpu in self._found(start, region, market):
                    yield self._row("gpu", name, region, market, price(gpu, "h"))
            text = f"External IP Charge on {ADDRESSES[market]}"
            for address in self._matching(Pattern(text, GLOBAL, market)):
                yield self._row(*ADDRESS, EVERYWHERE, market, price(address, "h"))
        for name, start in DISKS.items():
            for disk in self._matching(Pattern(rf"{start}(?: in .+)?", region, ON_DEMAND)):
                usd = price(disk, "GiBy.mo")
                yield self._row("disk", name, region, "", usd, "GB-month")

    def _found(self, start: str, region: str, market: str) -> list[Sku]:
        """The SKUs for machines whose description begins with `start`."""
        attached = f"(?: attached to {IS_SPOT} VMs)?" if market == SPOT else ""
        before = f"(?:{IS_SPOT} )?" if market == SPOT else ""
        return self._matching(Pattern(rf"{before}{start}{attached} running in .+", region, market))

    def _matching(self, pattern: Pattern) -> list[Sku]:
        return [sku for sku in self.skus if pattern.fits(sku)]

    def _row(
        self, kind: str, item: str, region: str, market: str, usd: Decimal, unit: str = "h"
    ) -> Row:
        text = f"{usd.normalize():f}"
        return Row(kind, item, region, market, text, "", unit, self.day, SOURCE)


def price(sku: Sku, unit: str) -> Decimal:
    """The newest price of a SKU, at its highest tier: a free first tier is for the whole account,
    not for each machine. RailheadError: it is in another unit or currency."""
    newest = max(sku.pricingInfo, key=lambda info: info.effectiveTime, default=Pricing())
    expression = newest.pricingExpression
    tiers = sorted(expression.tieredRates, key=lambda tier: tier.startUsageAmount)
    if expression.usageUnit != unit or not tiers or tiers[-1].unitPrice.currencyCode != "USD":
        raise RailheadError(
            f"Google's price of {sku.description[:80]!r} is not in USD per {unit}", hint=SET_PRICE
        )
    return tiers[-1].unitPrice.amount


# A description that a pattern matches contains one of these texts.
TEXTS = (*(start for start, _ in FAMILIES.values()), *GPUS.values(), *DISKS.values(), "External")
KNOWN_SKU = re.compile("|".join(map(re.escape, TEXTS)))


def catalogue(client: GoogleClient, day: str) -> Catalogue:
    """What Google sells, without SKUs that no pattern matches. RailheadError: Google does not
    answer, refuses, or a page is missing."""
    path = f"{endpoint('cloudbilling')}v1/services/{COMPUTE_ENGINE}/skus"
    query = {"pageSize": str(PAGE), "currencyCode": "USD"}
    skus = client.items(Sku, path, query, "skus")
    return Catalogue(tuple(sku for sku in skus if KNOWN_SKU.search(sku.description)), day)


def rows(region: str, types: Collection[str], now: datetime | None = None) -> list[Row]:
    """The prices of machines, disks and addresses in a region. All types are included, because they
    are sold in parts. RailheadError: as `catalogue` and `price`."""
    now = now or datetime.now(timezone.utc)
    return list(catalogue(connect(), f"{now:%Y-%m-%d}").rows(region))
