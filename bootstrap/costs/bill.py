"""The bill of a ledger: machines and addresses while they ran, disks while they existed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from itertools import chain

from railhead.documents.lazy import dataclass
from railhead.money import host
from railhead.money.amount import Amount, total
from railhead.money.bill import FIRST_MINUTE, Existence, Price, Step, UnknownPrice, at_steps, bill
from railhead.money.host import Part

from ..clouds.base import SpotOffer
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


History = Mapping[SpotOffer, Sequence[Step]]


def cost_of(ledger: Ledger, period: Period, history: History | None = None) -> Amount:
    """What a stack's machines cost in a period. Spot machines without a `history` have the range
    of prices that was noted at their start."""
    billed = (existences(m, period, history or {}) for m in ledger.machines.values())
    return bill(chain.from_iterable(billed), moment(period.until))


def existences(billed: BilledMachine, period: Period, history: History) -> Iterator[Existence]:
    """What existed of a machine in a period, each start at its own prices."""
    steps = history.get(billed.spot, ()) if billed.spot else ()
    for start in billed.starts:
        if inside := period.part(start.at, start.until):
            for part in _parts(billed, start):
                if not part.is_of_disk:
                    changes = steps if part.what == host.MACHINE else ()
                    yield from _of_start(part, start, inside, changes)
    yield from _disks(billed, period)


def _of_start(
    part: Part, start: Start, inside: tuple[float, float], steps: Sequence[Step]
) -> Iterator[Existence]:
    """A machine, or its address, for a start. One whose end is not known costs from nothing to its
    whole price after it was last seen."""
    begin, last = inside
    certain = max(start.seen, start.at + FIRST_MINUTE.total_seconds(), begin)
    end = min(last, certain) if start.unsure else last
    # The rest of a start, and an address, have no first minute.
    least = FIRST_MINUTE if part.what == host.MACHINE and begin == start.at else timedelta(0)
    certain_part = Existence(part.what, part.rate, moment(begin), moment(end), least=least)
    yield from _stepped(certain_part, steps)
    if end < last:
        for rest in _stepped(Existence(part.what, part.rate, moment(end), moment(last)), steps):
            rate = rest.rate
            rate = replace(rate, low=Decimal(0)) if isinstance(rate, Price) else rate
            yield replace(rest, rate=rate)


def _stepped(existence: Existence, steps: Sequence[Step]) -> list[Existence]:
    """At the price of each time, where it changes; before the first known one it is unknown."""
    if not steps or existence.end is None:
        return [existence]
    first = min(step.start for step in steps)
    before = UnknownPrice(f"{steps[0].rate.what} before {first:%Y-%m-%d}")
    return at_steps(replace(existence, rate=before), steps, existence.end)


def _disks(billed: BilledMachine, period: Period) -> Iterator[Existence]:
    """The disk while it existed: from each start to the next one at the prices of the first."""
    begins = [billed.created, *(start.at for start in billed.starts[1:])]
    ends = [*begins[1:], billed.deleted]
    for begin, end, start in zip(begins, ends, billed.starts or (None,), strict=True):
        if inside := period.part(begin, end):
            for part in _parts(billed, start):
                if part.is_of_disk:
                    first, last = map(moment, inside)
                    yield Existence(part.what, part.rate, first, last, part.quantity)


def _parts(billed: BilledMachine, start: Start | None) -> tuple[Part, ...]:
    parts = (start.parts if start else ()) or billed.parts
    without_price = Part(host.MACHINE, UnknownPrice(f"price of {billed.name}"))
    return tuple(map(host.read_part, parts)) or (without_price,)


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
        if billed.deleted is None:
            running = tuple(map(host.read_part, billed.parts))
            runs = bool(billed.starts) and billed.starts[-1].until is None
            parts += [part.per_hour for part in (running if runs else host.stopped(running))]
    return total(parts)
