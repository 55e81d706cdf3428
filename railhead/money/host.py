"""What each host of a cluster is billed for, and its form in the cluster document. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal

from railhead.documents.clouds import COMMON_FACTS
from railhead.documents.cluster import ClusterPrice, PricePart
from railhead.documents.lazy import dataclass, replace
from railhead.documents.runs.result import RunCost

from .amount import Amount, total
from .bill import HOURS, Price, Rate, UnknownPrice
from .table import ADDRESS, OBJECTS, SENT, Rates

MACHINE, DISK, PUBLIC = "machine", "disk", "address"
THROUGHPUT, IOPS = "throughput", "iops"  # of a disk, beyond what its price includes
CURRENCY = "USD"


@dataclass(frozen=True)
class Part:
    """One thing that each host is billed for: `quantity` units at a rate."""

    what: str
    rate: Rate
    quantity: Decimal = Decimal(1)

    @property
    def per_hour(self) -> Amount:
        """For one hour."""
        return self.rate.amount * (self.quantity / HOURS[self.rate.unit])

    @property
    def is_of_disk(self) -> bool:
        """Whether it is billed as long as the disk exists, also while the host is stopped."""
        return self.what in (DISK, THROUGHPUT, IOPS)


@dataclass(frozen=True)
class DiskSpec:
    """Its size and, if its cloud sells them separately, its MiB/s and IOPS."""

    gigabytes: int = 100
    mbps: int = 0
    iops: int = 0


@dataclass(frozen=True)
class HostSpec:
    """What the price of a host of a stack depends on: `gpus` are a type and a number."""

    cloud: str
    region: str | None
    machine_type: str
    gpus: tuple[str, int] | None = None
    vcpus: int | None = None
    spot: bool = False
    disk: DiskSpec = DiskSpec()


def parts_of(spec: HostSpec, rates: Rates) -> tuple[Part, ...]:
    """The machine, its disk and its public address."""
    region, spot = spec.region, spec.spot
    kind = COMMON_FACTS[spec.cloud].disk_type
    return (
        Part(MACHINE, rates.machine(spec.machine_type, region, spec.gpus, spec.vcpus, spot=spot)),
        *disk_parts(spec.disk, spec.cloud, kind, region, rates),
        Part(PUBLIC, rates.rate(*ADDRESS, region, spot=spot)),
    )


def disk_parts(
    disk: DiskSpec, cloud: str, kind: str, region: str | None, rates: Rates
) -> Iterator[Part]:
    """The size of a disk, and the speed that is billed separately."""
    yield Part(DISK, rates.rate(DISK, kind, region), Decimal(disk.gigabytes))
    facts = COMMON_FACTS[cloud]
    if kind != facts.disk_type or facts.disk_includes is None:
        return
    limits, included = (disk.mbps, disk.iops), facts.disk_includes
    for speed, has, free in zip((THROUGHPUT, IOPS), limits, included, strict=True):
        if has > free:
            yield Part(speed, rates.rate(speed, kind, region), Decimal(has - free))


def documented(parts: Iterable[Part], hosts: int) -> ClusterPrice:
    """The price of a number of hosts, for the cluster document."""
    parts = tuple(parts)
    amount = per_hour(parts, hosts)
    machine = parts[0].rate
    known = isinstance(machine, Price)
    return ClusterPrice(
        per_hour=float(round(amount.low, 5)) if known else None,
        currency=CURRENCY,
        source=machine.source if isinstance(machine, Price) else str(machine),
        date=machine.day if isinstance(machine, Price) else "",
        parts=tuple(map(_part, parts)),
    )


def _part(part: Part) -> PricePart:
    rate, quantity = part.rate, float(part.quantity)
    if isinstance(rate, UnknownPrice):
        return PricePart(part.what, rate.what, quantity, rate.unit, source=rate.why)
    high = str(rate.high) if rate.high != rate.low else None
    low = str(rate.low)
    return PricePart(part.what, rate.what, quantity, rate.unit, low, high, rate.day, rate.source)


def read(price: ClusterPrice | None, hosts: int) -> tuple[Part, ...]:
    """What each host is billed for, as a document has it. A document without parts, from an older
    version or with a price from the config, has the price of all hosts together."""
    if price is None:
        return ()
    if price.currency != CURRENCY:
        return (Part(MACHINE, UnknownPrice(f"a price in {price.currency}", "not in USD")),)
    if price.parts:
        return tuple(map(read_part, price.parts))
    name = "price of the machines"
    if price.per_hour is None:
        return (Part(MACHINE, UnknownPrice(name, price.source)),)
    each = Decimal(str(price.per_hour)) / max(1, hosts)
    return (Part(MACHINE, Price(name, each, each, "h", price.date, price.source)),)


def read_part(part: PricePart) -> Part:
    """A part as a document has it."""
    quantity = Decimal(str(part.quantity))
    if part.usd is None:
        return Part(part.what, UnknownPrice(part.name, part.source), quantity)
    low, high = Decimal(part.usd), Decimal(part.high or part.usd)
    rate = Price(part.name, low, high, part.unit, part.day, part.source)
    return Part(part.what, rate, quantity)


def of_run(parts: Iterable[PricePart], hosts: int, seconds: float) -> RunCost | None:
    """The cost of a number of hosts for the duration of a run, for its result; None without
    prices."""
    read_parts = tuple(map(read_part, parts))
    if not read_parts:
        return None
    amount = per_hour(read_parts, hosts) * (Decimal(str(seconds)) / 3600)
    low, high = (f"{usd:.4f}" for usd in (amount.low, amount.high))
    known = bool(amount.low) or amount.known
    return RunCost(low if known else None, high if high != low else None, amount.unknown)


def scaled(price: ClusterPrice, before: int, hosts: int) -> ClusterPrice:
    """The price of another number of the same hosts."""
    whole = price.per_hour
    return replace(price, per_hour=None if whole is None else whole * hosts / max(1, before))


def per_hour(parts: Iterable[Part], hosts: int) -> Amount:
    """All hosts together while they run."""
    return total(part.per_hour for part in parts) * hosts


def stopped(parts: Iterable[Part]) -> tuple[Part, ...]:
    """What a stopped host is billed for: both clouds take its address back, and keep its disk."""
    return tuple(part for part in parts if part.is_of_disk)


def describe(parts: Iterable[Part], hosts: int, hours: float | None = None) -> str:
    """`1.08 USD per hour (2 x machine 0.526, disk 0.011, address 0.005; AWS price list 2026-07-20),
    at most 8.67 USD until the deadline of 8 h`."""
    parts = tuple(parts)
    whole = per_hour(parts, hosts)
    each = [f"{part.what} {part.per_hour.low:.3f}" for part in parts if part.per_hour.known]
    each_host = f"{hosts} x {', '.join(each)}; " if len(parts) > 1 and each else ""
    text = f"{whole.text('per hour')} ({each_host}{_sources(parts)})"
    if hours is None or not whole.known:
        return text
    at_most = Amount.of((whole * Decimal(str(hours))).high)
    return f"{text}, at most {at_most} until the deadline of {hours:g} h"


def by_use(region: str | None, rates: Rates, *, bucket: bool) -> str:
    """What is billed by its use, which is not known before: `not included: a bucket with its old
    versions at 0.023 USD per GB-month, traffic out at 0 to 0.09 USD per GB`."""
    prices = {"traffic out": rates.rate(*SENT, region)}
    if bucket:
        prices = {"a bucket with its old versions": rates.rate(*OBJECTS, region), **prices}
    known = {name: rate.figure for name, rate in prices.items() if isinstance(rate, Price)}
    texts = [f"{name} at {figure}" for name, figure in known.items()]
    texts += [f"{name} (unknown)" for name in prices if name not in known]
    return f"not included: {', '.join(texts)}"


def _sources(parts: Iterable[Part]) -> str:
    """The sources with their days, each once."""
    sources = dict.fromkeys(
        f"{rate.source} {rate.day}".strip() if isinstance(rate := part.rate, Price) else rate.why
        for part in parts
    )
    return ", ".join(sources)
