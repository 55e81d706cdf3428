"""The page of several runs: which is best, what differs, their curves side by side. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..console.charts.chart import Curve, Panel
from ..console.markup import Markup, element, joined, text
from ..console.text import duration
from ..errors import UsageError
from ..runs.metrics.plots import by_epoch, points
from .comparable import comparison
from .facts import METRICS, RunFacts, better, lower_is_better
from .html import charts, page, section, table
from .page import figure, link_to, state_of

MOST_SCATTERS = 6
PREFERRED = ("accuracy", "loss", "mae")


def metric_for(runs: Sequence[RunFacts], requested: str | None = None) -> str:
    """The metric by which runs are compared; "" if they have none.

    Raises:
        UsageError: no run has the requested metric.
    """
    known = {name: sum(name in run.metrics for run in runs) for run in runs for name in run.metrics}
    if requested and requested not in known:
        raise UsageError(
            f"no run has the metric {requested!r}; they have: {', '.join(sorted(known)) or 'none'}"
        )
    order = [*PREFERRED, *sorted(known)]
    return requested or max(
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


def comparison_panels(runs: Sequence[RunFacts], metric: str = "") -> list[Panel]:
    """Held-out metrics and throughput by epoch with a curve for each run, and the metric by each
    setting that is a number in all runs; the best run is in colour."""
    names, best = short_names(runs), _index(runs, best_of(runs, metric))
    labels = {f"val_{name}": f"held-out {name}" for name in ("accuracy", "loss", "mae")}
    labels |= {"samples_per_s": "samples/s over all ranks"}
    panels = [
        panel
        for name in differing(runs)[:MOST_SCATTERS]
        if (panel := _scatter(runs, names, name, metric, best))
    ]
    for key, label in labels.items():
        curves = {
            n: Curve(name, points)
            for n, (name, run) in enumerate(zip(names, runs, strict=True))
            if (points := by_epoch(run.epochs, key))
        }
        if curves:
            number = [*curves].index(best) if best in curves else None
            from_zero = key == "samples_per_s"
            panels.append(Panel(label, "epoch", (*curves.values(),), from_zero, number))
    return panels


def _scatter(
    runs: Sequence[RunFacts], names: Sequence[str], setting: str, metric: str, best: int | None
) -> Panel | None:
    """The metric by the values of a setting; None unless two different ones are numbers."""
    curves = {}
    for number, (name, run) in enumerate(zip(names, runs, strict=True)):
        pair = points([(_number(run.settings.get(setting)), run.metrics.get(metric))])
        if pair:
            curves[number] = Curve(name, pair)
    if len({curve.points[0][0] for curve in curves.values()}) < 2:
        return None
    in_colour = [*curves].index(best) if best in curves else None
    return Panel(metric, setting, (*curves.values(),), best=in_colour, scattered=True)


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def comparison_page(
    runs: Sequence[RunFacts], metric: str, command: str, folder: Path, title: str = "Comparison"
) -> str:
    """The page of several runs, compared by a metric, in `folder`; `command` writes it again."""
    best, drawn = best_of(runs, metric), comparison_panels(runs, metric)
    scatters = [panel for panel in drawn if panel.scattered]
    curves = [panel for panel in drawn if not panel.scattered]
    return page(title, [
        element("h1", f"{title} of {len(runs)} runs"),
        element("p", sentence(best, metric, runs)),
        section("Runs", _table(runs, best, metric, folder)),
        section(f"{metric} by setting", charts(scatters)),
        section("Curves", charts(curves)),
        section("The same again", element("pre", command)),
    ])  # fmt: skip


def by_metric(runs: Sequence[RunFacts], metric: str) -> list[RunFacts]:
    """The runs, the best first; those without the metric, or that are not compared, last."""
    compared = {run.run_id for run in comparison(runs, metric).runs}
    sign = 1 if better(metric, 0.0, 1.0) else -1

    def order(run: RunFacts) -> tuple[bool, bool, float]:
        value = run.metrics.get(metric)
        return run.run_id not in compared, value is None, sign * (value or 0.0)

    return sorted(runs, key=order)


def best_value(best: RunFacts, metric: str) -> str:
    """The metric and its value in the best run, and whether the lowest value is the best."""
    lower = " (lower is better)" if lower_is_better(metric) else ""
    return f"{metric} {figure(metric, best.metrics[metric])}{lower}"


def sentence(best: RunFacts | None, metric: str, runs: Sequence[RunFacts]) -> Markup:
    """Which run is best, by which metric."""
    if best is None:
        return text("No best run: " + ("none can be compared." if metric else "none has a metric."))
    settings = [f"{name}={best.settings.get(name, '')}" for name in differing(runs)[:4]]
    with_ = f", with {', '.join(settings)}" if settings else ""
    value = best_value(best, metric)
    return joined([
        Markup("Best run: "), element("b", best.run_id),
        element("span", f" with {value}{with_}."),
    ])  # fmt: skip


def _table(runs: Sequence[RunFacts], best: RunFacts | None, metric: str, folder: Path) -> Markup:
    """A row for each run, the best first: the settings that differ, then the metrics."""
    ordered, names = by_metric(runs, metric), differing(runs)
    known = [*dict.fromkeys([metric, *METRICS, *(name for run in runs for name in run.metrics)])]
    metrics = [name for name in known if any(name in run.metrics for run in runs)][:8]
    why = comparison(runs, metric).left_out
    rows = [
        (
            *(run.settings.get(name, "") for name in names),
            *(figure(n, run.metrics[n]) if n in run.metrics else "" for n in metrics),
            "" if run.speed is None else f"{run.speed:,.0f}",
            "" if run.seconds is None else duration(run.seconds),
            "" if run.cost is None else str(run.cost),
            state_of(run),
            link_to(run, folder),
            *([why.get(run.run_id, "")] if why else []),
        )
        for run in ordered
    ]
    head = (*names, *metrics, "samples/s", "duration", "cost", "state", "run")
    head = (*head, "why not compared") if why else head
    return element("div", table(head, rows, _index(ordered, best)), class_="runs")


def _index(runs: Sequence[RunFacts], best: RunFacts | None) -> int | None:
    return next((n for n, run in enumerate(runs) if run is best), None)
