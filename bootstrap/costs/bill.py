"""The bill of a ledger: machines and addresses while they ran, disks while they existed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone

from railhead.documents.lazy import dataclass
from railhead.money import host
from railhead.money.amount import Amount, total
from railhead.money.bill import Existence, UnknownPrice, bill, machine
from railhead.money.host import DISK, Part

from .ledger import BilledMachine, Ledger, Start


@dataclass(frozen=True)
class Period:
    """From `since` to `until`, seconds since 1970."""

    since: float
    until: float

    def part(self, start: float, end: float | None) -> tuple[float, float] | None:
        """The part of a time that is inside; None for none."""
        first, last = max(start, self.since), min(self.until if end is None else end, self.until)
        return (first, last) if first < last else None


def cost_of(ledger: Ledger, period: Period) -> Amount:
    """What a stack's machines cost in a period."""
    parts = (one for each in ledger.machines.values() for one in existences(each, period))
    return bill(parts, moment(period.until)).total


def existences(billed: BilledMachine, period: Period) -> Iterator[Existence]:
    """What existed of a machine in a period, at its prices."""
    parts = tuple(map(host.read_part, billed.parts)) or (_without_prices(billed.name),)
    running = [part for part in parts if part.what != DISK]
    for start in billed.starts:
        if inside := period.part(start.at, start.until):
            yield from (_of_start(part, start, inside) for part in running)
        if start.unsure and period.part(start.seen, start.until):
            yield _gap(billed.name, start)
    if inside := period.part(billed.created, billed.deleted):
        for part in parts:
            if part.what == DISK:
                begin, end = map(moment, inside)
                yield Existence(part.what, part.rate, begin, end, part.quantity)


def _of_start(part: Part, start: Start, inside: tuple[float, float]) -> Existence:
    """A machine, or its address, for a start. One whose end is not known counts as long as it was
    seen; the rest is the gap."""
    begin, last = inside
    end = min(last, max(start.seen, begin)) if start.unsure else last
    one = machine(part.what, part.rate, moment(begin), moment(end))
    return one if part.what == host.MACHINE and begin == start.at else _exact(one)


def _exact(one: Existence) -> Existence:
    """Without a first minute: it is the rest of a start, or an address."""
    return Existence(one.name, one.rate, one.start, one.end, one.quantity)


def _gap(name: str, start: Start) -> Existence:
    """The time in which a machine stopped while no command looked."""
    seen, until = moment(start.seen), moment(start.until or start.seen)
    what = f"{name} between {seen:%Y-%m-%d %H:%M} and {until:%Y-%m-%d %H:%M} UTC"
    return Existence(name, UnknownPrice(what), seen, until)


def _without_prices(name: str) -> Part:
    return Part(host.MACHINE, UnknownPrice(f"price of {name}"))


def so_far(ledger: Ledger, now: float) -> str:
    """One line: what a stack has cost since its first machine, and what it costs per hour now."""
    first = min((machine.created for machine in ledger.machines.values()), default=now)
    cost, hourly = cost_of(ledger, Period(first, now)), per_hour(ledger)
    return f"{cost} since {moment(first):%Y-%m-%d %H:%M} UTC; now {hourly.text('per hour')}"


def hours(ledger: Ledger, period: Period) -> float:
    """For how many hours machines ran in a period, all together."""
    times = [period.part(s.at, s.until) for m in ledger.machines.values() for s in m.starts]
    return sum(last - first for first, last in filter(None, times)) / 3600


def idle_seconds(ledger: Ledger, busy: Sequence[tuple[str, float, float]], period: Period) -> float:
    """For how long machines ran without a run: `busy` are the host, the begin and the end of each
    run."""
    seconds = 0.0
    for billed in ledger.machines.values():
        runs = [(begin, end) for name, begin, end in busy if name == billed.name]
        for start in billed.starts:
            if inside := period.part(start.at, start.until):
                seconds += inside[1] - inside[0] - covered(inside, runs)
    return seconds


def covered(inside: tuple[float, float], spans: Iterable[tuple[float, float]]) -> float:
    """How many seconds of a time the spans cover, which may overlap."""
    first, last = inside
    seconds, reached = 0.0, first
    for begin, end in sorted(spans):
        begin, end = max(begin, reached), min(end, last)
        if begin < end:
            seconds += end - begin
            reached = end
    return seconds


def moment(seconds: float) -> datetime:
    """A time, UTC."""
    return datetime.fromtimestamp(seconds, timezone.utc)


def per_hour(ledger: Ledger) -> Amount:
    """What exists now costs per hour: of machines that run, and disks of the others."""
    parts = []
    for billed in ledger.machines.values():
        each = tuple(map(host.read_part, billed.parts))
        runs = bool(billed.starts) and billed.starts[-1].until is None
        if billed.deleted is None:
            parts += [part.per_hour for part in (each if runs else host.stopped(each))]
    return total(parts)
