"""`fab costs`: what stacks, runs and people have cost, and the part of the time without a run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date

from railhead.documents.carbon.energy import two_digits
from railhead.documents.lazy import dataclass
from railhead.documents.options.runs import CostsOptions
from railhead.documents.outputs import CostRow, CostsOutput
from railhead.documents.times import seconds
from railhead.money.amount import Amount, total

from ...clouds import base
from ...console.output import note_output, print_lines
from ...console.text import percent, table_lines
from ...costs import ledger
from ...costs.bill import History, Period, cost_of, hours, idle_seconds, moment
from ...costs.ledger import Ledger
from ...errors import Command, RailheadError, UsageError
from ...inventory import local_state
from ...inventory.clouds import CLOUDS
from ...lifecycle import power
from ...report.facts import RunFacts
from ...report.listing import known_runs

DIFFERENCE = (
    "the cloud's figures are hours to a day late, and have taxes, traffic, free tiers, credits "
    "and what was made outside Railhead with these tags"
)
BILL = Command("costs", bill=True)
NOT_BILLED = "no figure: its cloud gives none, or has billed nothing with the stack's id yet"


@dataclass(frozen=True)
class Cost:
    """A line: what cost how much, for how many hours of machines, and how many without a run.
    `grams`: gCO2e of its runs, as far as they are known."""

    name: str
    amount: Amount
    hours: float
    idle_hours: float | None = None
    billed: Amount | None = None
    grams: float | None = None

    def __add__(self, other: Cost) -> Cost:
        idle = [cost.idle_hours for cost in (self, other) if cost.idle_hours is not None]
        bills = [cost.billed for cost in (self, other) if cost.billed is not None]
        grams = [cost.grams for cost in (self, other) if cost.grams is not None]
        return Cost(
            self.name,
            self.amount + other.amount,
            self.hours + other.hours,
            sum(idle) if idle else None,
            total(bills) if bills else None,
            sum(grams) if grams else None,
        )

    @property
    def idle(self) -> float | None:
        """The part of the hours without a run."""
        return None if self.idle_hours is None or not self.hours else self.idle_hours / self.hours

    def document(self) -> CostRow:
        """As a document."""
        billed = self.billed.exact if self.billed else None
        return CostRow(
            name=self.name,
            usd=float(round(self.amount.low, 4)),
            high=float(round(self.amount.high, 4)),
            unknown=self.amount.unknown,
            machine_hours=round(self.hours, 3),
            idle=None if self.idle is None else round(self.idle, 4),
            billed=None if billed is None else float(round(billed, 4)),
            gco2e=None if self.grams is None else float(f"{self.grams:.2g}"),
        )


def costs(options: CostsOptions, now: float | None = None) -> None:
    """Print the costs of the last days, and their sum.

    Raises:
        UsageError: --bill of runs, which the clouds do not know.
    """
    if options.bill and options.by == "run":
        raise UsageError("--bill has figures of stacks and of people, not of runs", hint=BILL)
    now = time.time() if now is None else now
    period = Period(now - options.since * 86_400, now)
    rows = _of_runs(period) if options.by == "run" else _of_stacks(period, options)
    rows = [row for row in rows if row.hours or row.amount.high or row.amount.unknown]
    rows.sort(key=lambda row: row.amount.high, reverse=True)
    whole = sum(rows, Cost("all", Amount(), 0.0))
    since = f"{moment(period.since):%Y-%m-%dT%H:%M:%SZ}"
    until = f"{moment(period.until):%Y-%m-%dT%H:%M:%SZ}"
    each = tuple(row.document() for row in rows)
    note_output(
        CostsOutput(since=since, until=until, by=options.by, rows=each, total=whole.document())
    )
    print_lines(*lines(rows, whole, options))


def lines(rows: Sequence[Cost], whole: Cost, options: CostsOptions) -> list[str]:
    """The table, for people."""
    if not rows:
        return [f"nothing is recorded here of the last {options.since:g} days"]
    head = [options.by, "cost", "machine hours", "without a run", "gCO2e of runs"]
    head += ["billed by the cloud"] if options.bill else []
    cells = [
        [
            row.name,
            str(row.amount),
            f"{row.hours:.1f}",
            "" if row.idle is None else percent(row.idle),
            "" if row.grams is None else two_digits(row.grams),
            *([str(row.billed) if row.billed else ""] if options.bill else []),
        ]
        for row in ([*rows, whole] if len(rows) > 1 else rows)
    ]
    text = table_lines([head, *cells])
    if options.bill:
        text.append(f"a difference: {DIFFERENCE}")
        text += [NOT_BILLED] if any(row.billed is None for row in rows) else []
    return text


def _of_runs(period: Period) -> Iterator[Cost]:
    """The runs that ended in the period; the price of their hosts while they ran."""
    for row in known_runs("time"):
        run = row.run
        span = _span(run)
        inside = span and period.part(*span)
        if inside and run.cost is not None and run.price is not None:
            seconds = inside[1] - inside[0]
            amount = run.cost_of(seconds) or Amount()
            name, machines = run.name or run.run_id, len(run.hosts)
            yield Cost(name, amount, machines * seconds / 3600, grams=_grams(run, period))


def _grams(run: RunFacts, period: Period) -> float | None:
    """gCO2e of a run; if it began before the period, only of the part inside."""
    span = _span(run)
    inside = span and period.part(*span)
    grams = run.carbon.grams(run.carbon.kwh) if run.carbon else None
    if grams is None or span is None or inside is None or span[1] <= span[0]:
        return None
    return grams * (inside[1] - inside[0]) / (span[1] - span[0])


def _span(run: RunFacts) -> tuple[float, float] | None:
    begin = seconds(run.result.started) if run.result else None
    end = seconds(run.result.ended) if run.result else None
    return (begin, end) if begin is not None and end is not None else None


def _of_stacks(period: Period, options: CostsOptions) -> Iterable[Cost]:
    """The costs of each stack, or of the stacks of each person."""
    ledgers = {name: _refreshed(name, one, period.until) for name, one in ledger.every().items()}
    runs = [row.run for row in known_runs("time")]
    busy = list(_busy(runs, period.until))
    billed = _billed(ledgers, period) if options.bill else {}
    carbon = _carbon(runs, period)
    found: dict[str, Cost] = {}
    for own_id, one in ledgers.items():
        name = one.owner or "unknown" if options.by == "person" else one.stack or one.cluster
        own = [(host, *span) for cluster, host, span in busy if cluster == one.cluster]
        ran = hours(one, period)
        idle = idle_seconds(one, own, period) / 3600 if ran else None
        grams = carbon.pop(one.cluster, None)  # once, also of a stack that was created again
        amount = cost_of(one, period, _history(one, period))
        cost = Cost(name, amount, ran, idle, billed.get(own_id), grams)
        found[name] = found[name] + cost if name in found else cost
    return found.values()


def _carbon(runs: Iterable[RunFacts], period: Period) -> dict[str, float]:
    """gCO2e of the runs of each cluster that has any."""
    found: dict[str, float] = {}
    for run in runs:
        if (grams := _grams(run, period)) is not None:
            found[run.cluster] = found.get(run.cluster, 0.0) + grams
    return found


def _busy(runs: Iterable[RunFacts], now: float) -> Iterator[tuple[str, str, tuple[float, float]]]:
    """The cluster, the host and the time of each run. A run without a result, in progress or not
    fetched, counts until now."""
    for run in runs:
        created = seconds(run.document.created) if run.document and not run.result else None
        if span := _span(run) if created is None else (created, now):
            yield from ((run.cluster, host, span) for host in run.hosts)


def _refreshed(own_id: str, one: Ledger, now: float) -> Ledger:
    """The ledger of a stack's id; if a machine may run, they are queried first. If the cloud does
    not answer, or another stack has the name now, the cost since they were last seen is a range."""
    if not any(m.starts and m.starts[-1].until is None for m in one.machines.values()):
        return one
    try:
        inventory = local_state.load_cluster(one.cluster)
        if (inventory.cluster_id or inventory.name) != own_id:
            raise RailheadError("another stack has its name now", hint=BILL)
        status = power.cluster_status(inventory)
        return ledger.note(inventory, status.instance_states, now) or one
    except RailheadError as error:
        hint = f"; next: {error.hint}" if error.hint else ""
        print_lines(f"{one.stack or one.cluster}: not read from its cloud: {error.message}{hint}")
        return replace(one, machines={k: m.not_read(now) for k, m in one.machines.items()})


def _history(one: Ledger, period: Period) -> History:
    """The prices of a stack's spot machines at each time, if its cloud keeps them. Without an
    answer the range of their start is used."""
    starts = [
        (machine.spot, start.at)
        for machine in one.machines.values()
        for start in machine.starts
        if machine.spot and period.part(start.at, start.until)
    ]
    name = CLOUDS[one.cloud].spot_history
    if not starts or name is None or one.region is None:
        return {}
    since = max(period.since, min(at for _, at in starts))
    offers = {offer for offer, _ in starts}
    try:
        found: History = base.load(name)(one.region, offers, moment(since))
    except RailheadError as error:
        text = f"{one.stack or one.cluster}: spot prices are those noted at its starts"
        print_lines(f"{text}: {error.message}")
        return {}
    return found


def _billed(ledgers: Mapping[str, Ledger], period: Period) -> dict[str, Amount]:
    """What the clouds of these ledgers have billed, by the ids of stacks."""
    found: dict[str, Amount] = {}
    first, last = (moment(day).date() for day in (period.since, period.until))
    for cloud in sorted({book.cloud for book in ledgers.values()}):
        found |= _bill_of(cloud, first, last)
    return found


def _bill_of(cloud: str, first: date, last: date) -> dict[str, Amount]:
    """What a cloud has billed; nothing, with the reason printed, if it does not answer."""

    def report(line: str) -> None:
        print_lines(f"{cloud}: {line}")

    name = CLOUDS[cloud].bill
    if name is None:
        return {}
    try:
        found: dict[str, Amount] = base.load(name)(first, last, report)
    except RailheadError as error:
        report(f"no figures: {error}")
        return {}
    return found
