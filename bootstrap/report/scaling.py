"""How a training scales with its ranks: throughput, efficiency, cost, and the size beyond which
more ranks do not pay. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from statistics import median

from railhead.documents.carbon.energy import Carbon, two_digits
from railhead.documents.lazy import dataclass
from railhead.money.amount import Amount

from ..console.charts.chart import Curve, Panel
from ..console.markup import Markup, element
from ..console.text import count, duration, percent
from ..errors import UsageError
from ..runs.metrics.plots import LARGEST
from .facts import RunFacts
from .html import charts, page, pairs, section, table
from .page import link_to

ENOUGH = 3  # measurements of a size
PAYS = 0.5  # of the throughput of one rank of the smallest run


@dataclass(frozen=True)
class Point:
    """One size: its run, the samples per second over all ranks of each measurement, and the seconds
    of an epoch."""

    run: RunFacts
    ranks: int
    hosts: int
    speeds: tuple[float, ...]
    epoch_seconds: float | None

    @property
    def speed(self) -> float:
        """The median of the measurements."""
        return median(self.speeds)

    @property
    def epoch_cost(self) -> Amount | None:
        """The price of the hosts of this run for an epoch; None where it is not known."""
        return None if self.epoch_seconds is None else self.run.cost_of(self.epoch_seconds)

    @property
    def epoch_carbon(self) -> Carbon | None:
        """The energy and the carbon of an epoch; None where nothing was measured."""
        measured = self.run.carbon
        return measured.of(self.epoch_seconds) if measured and self.epoch_seconds else None


@dataclass(frozen=True)
class Step:
    """What an epoch gains and costs from one size to the next."""

    before: Point
    after: Point

    @property
    def saved(self) -> float | None:
        """The seconds by which an epoch is shorter."""
        before, after = self.before.epoch_seconds, self.after.epoch_seconds
        return None if before is None or after is None else before - after

    @property
    def more(self) -> Decimal | None:
        """The USD by which an epoch costs more; None where a price is not known exactly."""
        before, after = self.before.epoch_cost, self.after.epoch_cost
        if before is None or after is None or before.exact is None or after.exact is None:
            return None
        return after.exact - before.exact

    @property
    def per_minute(self) -> Decimal | None:
        """USD for each minute by which an epoch is shorter; None where it is not shorter, or costs
        less."""
        if self.more is None or self.more < 0 or not self.saved or self.saved < 0:
            return None
        return self.more * 60 / Decimal(str(self.saved))

    @property
    def text(self) -> str:
        """`From 2 to 4 hosts, an epoch takes 5 min less and costs 0.56 USD more: 0.11 USD for each
        saved minute; 12 gCO2e more.`; "" where neither time nor price is known."""
        if self.saved is None:
            return ""
        parts = [f"takes {duration(abs(self.saved))} {'less' if self.saved >= 0 else 'more'}"]
        if self.more is not None:
            parts.append(f"costs {usd(abs(self.more))} {'more' if self.more >= 0 else 'less'}")
        sizes = f"From {self.before.ranks} to {count(self.after.ranks, 'rank')}"
        price = self.per_minute
        rate = "" if price is None else f": {usd(price)} for each saved minute"
        return f"{sizes}, an epoch {' and '.join(parts)}{rate}{self._carbon}."

    @property
    def _carbon(self) -> str:
        before, after = self.before.epoch_carbon, self.after.epoch_carbon
        if before is None or after is None:
            return ""
        grams = (after.grams(after.kwh), before.grams(before.kwh))
        if grams[0] is None or grams[1] is None:
            return ""
        more = grams[0] - grams[1]
        return f"; {two_digits(abs(more))} gCO2e {'more' if more >= 0 else 'less'}"


def usd(amount: Decimal) -> str:
    """A small amount: 0.0056 USD."""
    return Amount.of(amount).text(digits=2 if abs(amount) >= 1 else 4)


def points_of(runs: Sequence[RunFacts]) -> list[Point]:
    """The sizes of these runs in order; the fastest run of each size.

    Raises:
        UsageError: a run has no throughput, or all have the same size.
    """
    best: dict[int, Point] = {}
    for run in runs:
        document, speeds = run.document, tuple(v for v in run.speeds if 0 < v < LARGEST)
        if document is None or not speeds:
            raise UsageError(
                f"run {run.run_id} has no throughput: it has no epoch, and no metric samples_per_s",
                hint="--metric samples_per_s='([0-9.]+) samples/s'   # for a script",
            )
        hosts = len(document.hosts)
        point = Point(run, document.size, hosts, speeds, epoch_seconds(run))
        if point.ranks not in best or point.speed > best[point.ranks].speed:
            best[point.ranks] = point
    if len(best) < 2:
        raise UsageError("scaling compares runs of at least two sizes", hint="--counts 1,2,4")
    return [best[ranks] for ranks in sorted(best)]


def epoch_seconds(run: RunFacts) -> float | None:
    """The median time from the end of one epoch to the end of the next, evaluation included."""
    times = [record.time for record in run.epochs if record.time is not None]
    pairs = [b - a for a, b in zip(times, times[1:], strict=False) if b > a]
    return median(pairs) if pairs else None


def efficiency(point: Point, first: Point) -> float:
    """The throughput of a size, as a fraction of linear scaling from the first size."""
    return point.speed / point.ranks / (first.speed / first.ranks)


def pays_until(points: Sequence[Point]) -> tuple[Point, float | None]:
    """The last size that pays, and the gain per rank added after it, as a fraction of one rank of
    the first size; None if all sizes pay."""
    single = points[0].speed / points[0].ranks
    for before, after in zip(points, points[1:], strict=False):
        gain = (after.speed - before.speed) / (after.ranks - before.ranks) / single
        if gain < PAYS:
            return before, gain
    return points[-1], None


def sentence(points: Sequence[Point]) -> str:
    """A sentence about the number of ranks beyond which more do not pay off."""
    last, gain = pays_until(points)
    first = points[0]
    speed = f"{last.speed:,.0f} samples/s, {percent(efficiency(last, first))} of linear"
    if gain is None:
        return f"Each size up to {count(last.ranks, 'rank')} pays: {speed}."
    brings = (
        f"brings {percent(gain)} of one rank of the smallest run" if gain > 0 else "slows it down"
    )
    verb = "does" if last.ranks == 1 else "do"
    return (
        f"More than {count(last.ranks, 'rank')} {verb} not pay: each added rank "
        f"{brings}. At {last.ranks}: {speed}."
    )


def step_at_end(points: Sequence[Point]) -> Step:
    """The step after the last size that pays; the last step if all pay."""
    last, gain = pays_until(points)
    index = len(points) - 1 if gain is None else points.index(last) + 1
    return Step(points[index - 1], points[index])


def panels_of(points: Sequence[Point]) -> list[Panel]:
    """Measured and linear throughput by ranks, and the fraction of linear scaling."""
    single = points[0].speed / points[0].ranks
    spread = tuple((min(p.speeds), max(p.speeds)) for p in points)
    measured = Curve("measured", tuple((float(p.ranks), p.speed) for p in points), spread)
    linear = Curve("linear", tuple((float(p.ranks), single * p.ranks) for p in points))
    shares = tuple((float(p.ranks), 100 * efficiency(p, points[0])) for p in points)
    return [
        Panel("samples/s over all ranks", "ranks", (measured, linear), from_zero=True),
        Panel("% of linear", "ranks", (Curve("measured", shares),), from_zero=True),
    ]


def scaling_page(points: Sequence[Point], folder: Path, command: str) -> str:
    """The page about scaling in `folder`; `command` measures again."""
    steps = [None, *(Step(a, b) for a, b in zip(points, points[1:], strict=False))]
    rows = [
        (
            point.ranks,
            point.hosts,
            f"{point.speed:,.0f}",
            f"{min(point.speeds):,.0f} to {max(point.speeds):,.0f}",
            len(point.speeds),
            percent(efficiency(point, points[0])),
            "" if point.epoch_seconds is None else duration(point.epoch_seconds),
            "" if point.epoch_cost is None else point.epoch_cost.text(digits=4),
            usd(step.per_minute) if step and step.per_minute is not None else "",
            point.epoch_carbon.total if point.epoch_carbon else "",
            link_to(point.run, folder),
        )
        for point, step in zip(points, steps, strict=True)
    ]
    head = (
        "ranks", "hosts", "samples/s", "lowest to highest", "measurements", "of linear", "epoch",
        "cost of an epoch", "for each saved minute", "carbon of an epoch", "run",
    )  # fmt: skip
    last, _ = pays_until(points)
    return page("Scaling", [
        element("h1", f"Scaling from {points[0].ranks} to {points[-1].ranks} ranks"),
        element("p", sentence(points)),
        *(element("p", text) for text in [step_at_end(points).text] if text),
        *(element("p", why, class_="bad") for why in _few(points)),
        section("What was measured", pairs(what_of(points))),
        section("Throughput", charts(panels_of(points))),
        section("Sizes", element("div", table(head, rows, points.index(last)), class_="runs")),
        section("The same again", element("pre", command)) if command else Markup(""),
    ])  # fmt: skip


def _few(points: Sequence[Point]) -> list[str]:
    """A warning about sizes with too few measurements for a spread."""
    few = [count(point.ranks, "rank") for point in points if len(point.speeds) < ENOUGH]
    rule = f"fewer than {ENOUGH} measurements, one for each epoch: their spread is not known"
    return [f"{', '.join(few)}: {rule}"] if few else []


def what_of(points: Sequence[Point]) -> dict[str, str]:
    """The program, its batch, and the machines, of the largest run."""
    run = points[-1].run
    assert run.document
    settings = run.program_settings
    batch = {
        "batch of a rank": settings.get("batch_size", ""),
        "batch of all ranks": settings.get("global_batch", ""),
    }
    return {
        "program": run.description,
        **{name: value for name, value in batch.items() if value not in ("", "none")},
        "machines": f"{', '.join(host.name for host in run.document.hosts)}: {run.processors}",
        "launcher": f"{run.document.launcher}, strategy {run.document.strategy}",
        "framework": run.framework,
        "a measurement": "samples/s of an epoch, over all ranks; their median is compared",
    }
