"""The page of several runs: which is best, what differs, their curves side by side. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ..console import svg
from ..console.markup import Markup, element, joined, text
from ..console.svg import Curve, Panel
from ..console.text import duration
from ..errors import UsageError
from ..runs.metrics.plots import by_epoch
from .comparable import comparison
from .facts import METRICS, RunFacts, better
from .html import page, section, table
from .page import figure, state_of

PREFERRED = ("accuracy", "loss", "mae")


def metric_for(runs: Sequence[RunFacts], wanted: str | None = None) -> str:
    """The metric by which runs are compared; "" if they have none.

    Raises:
        UsageError: no run has the requested metric.
    """
    known = {name: sum(name in run.metrics for run in runs) for run in runs for name in run.metrics}
    if wanted and wanted not in known:
        raise UsageError(
            f"no run has the metric {wanted!r}; they have: {', '.join(sorted(known)) or 'none'}"
        )
    order = [*PREFERRED, *sorted(known)]
    return wanted or max(
        (name for name in order if name in known), key=lambda name: known[name], default=""
    )


def best_of(runs: Sequence[RunFacts], metric: str) -> RunFacts | None:
    """The run with the best value of a metric, among those on the same data; of equal runs the
    first one. None if no run has the metric, or each has its own data."""
    best = None
    for run in comparison(runs, metric).runs:
        if best is None or better(metric, run.metrics[metric], best.metrics[metric]):
            best = run
    return best


def differing(runs: Sequence[RunFacts]) -> list[str]:
    """The settings that are not the same in all runs."""
    names = [*dict.fromkeys(name for run in runs for name in run.settings)]
    return [name for name in names if len({run.settings.get(name) for run in runs}) > 1]


def short_names(runs: Sequence[RunFacts]) -> list[str]:
    """A name for each run in a legend: the settings that differ if they tell the runs apart,
    otherwise its id."""
    names = [n for n in differing(runs) if n not in ("launcher", "strategy", "script", "runtime")]
    settings = [" ".join(f"{n}={run.settings.get(n, '')}" for n in names[:2]) for run in runs]
    unique = len({*settings}) == len(settings) and all(settings)
    named = settings if unique and len(names) <= 2 else [run.run_id for run in runs]
    return [name[:60] for name in named]


def comparison_panels(runs: Sequence[RunFacts]) -> list[Panel]:
    """Held-out metrics and throughput by epoch, with a curve for each run."""
    names = short_names(runs)
    wanted = {f"val_{name}": f"held-out {name}" for name in ("accuracy", "loss", "mae")}
    wanted |= {"samples_per_s": "samples/s over all ranks"}
    panels = []
    for key, label in wanted.items():
        pairs = zip(names, runs, strict=True)
        curves = [Curve(name, by_epoch(run.epochs, key)) for name, run in pairs]
        if drawn := tuple(curve for curve in curves if curve.points):
            panels.append(Panel(label, "epoch", drawn, from_zero=key == "samples_per_s"))
    return panels


def comparison_page(runs: Sequence[RunFacts], metric: str, title: str = "Comparison") -> str:
    """The page of several runs, compared by a metric."""
    best = best_of(runs, metric)
    return page(title, [
        element("h1", f"{title} of {len(runs)} runs"),
        element("p", sentence(best, metric, runs)),
        section("Not compared", _left_out(runs, metric)),
        section("Figures", _figures(runs, best)),
        section("Settings that differ", _settings(runs, best)),
        section("Curves", element("div", *(
            element("figure", svg.chart(panel)) for panel in comparison_panels(runs)
        ), class_="charts")),
    ])  # fmt: skip


def sentence(best: RunFacts | None, metric: str, runs: Sequence[RunFacts]) -> Markup:
    """Which run is best, by which metric."""
    if best is None:
        return text("No best run: " + ("none can be compared." if metric else "none has a metric."))
    what = [f"{name}={best.settings.get(name, '')}" for name in differing(runs)[:4]]
    with_ = f", with {', '.join(what)}" if what else ""
    value = figure(metric, best.metrics[metric])
    return joined([
        Markup("Best run: "), element("b", best.run_id),
        element("span", f" with {metric} {value}{with_}."),
    ])  # fmt: skip


def _left_out(runs: Sequence[RunFacts], metric: str) -> Markup:
    """The runs that are not compared, and why."""
    return table(("run", "why"), comparison(runs, metric).left_out.items())


def _figures(runs: Sequence[RunFacts], best: RunFacts | None) -> Markup:
    own = [*dict.fromkeys(name for run in runs for name in run.metrics if name not in METRICS)]
    metrics = [n for n in (*METRICS, *own[:6]) if any(n in run.metrics for run in runs)]
    rows = [
        (
            run.run_id,
            state_of(run),
            *(figure(n, run.metrics[n]) if n in run.metrics else "" for n in metrics),
            "" if run.seconds is None else duration(run.seconds),
            "" if run.speed is None else f"{run.speed:,.0f}",
            "" if run.cost is None else f"{run.cost:.2f} {run.currency}",
        )
        for run in runs
    ]
    head = ("run", "state", *metrics, "duration", "samples/s", "cost")
    return table(head, rows, _index(runs, best))


def _settings(runs: Sequence[RunFacts], best: RunFacts | None) -> Markup:
    names = differing(runs)
    if not names:
        return element("p", "None: all runs have the same settings.")
    rows = [(run.run_id, *(run.settings.get(name, "") for name in names)) for run in runs]
    return table(("run", *names), rows, _index(runs, best))


def _index(runs: Sequence[RunFacts], best: RunFacts | None) -> int | None:
    return next((n for n, run in enumerate(runs) if run is best), None)
