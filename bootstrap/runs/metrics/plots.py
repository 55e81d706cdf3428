"""The curves of a run: loss and accuracy, and the values of --metric."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from railhead.documents.runs.records import Record

from ...console.charts.chart import Curve, Panel, Points, sheet
from ...untrusted.records import records
from .options import MOST_METRICS

LARGEST = 1e100


def curves(metrics: Path, title: str) -> str:
    """metrics.jsonl as the text of an SVG file; "" if there is nothing to draw."""
    drawn = panels(records(metrics))
    return sheet(drawn, title) if drawn else ""


def panels(records: Sequence[Record]) -> list[Panel]:
    """Loss and accuracy by epoch, and each --metric; if none of these exists yet, each host's loss
    by step."""
    epochs = [record for record in records if record.kind == "epoch"]
    both = [_panel(what, "epoch", _by_epoch(epochs, what)) for what in ("loss", "accuracy", "mae")]
    drawn = [panel for panel in (*both, *_metric_panels(records)) if panel.curves]
    if drawn:
        return drawn
    early = _panel("loss", "step", _by_step(records))
    return [early] if early.curves else []


def _metric_panels(records: Sequence[Record]) -> list[Panel]:
    """One panel for each --metric, by the number of the value."""
    metric_records = [record for record in records if record.kind == "metric"]
    names = sorted({record.name for record in metric_records})[:MOST_METRICS]
    pairs = {
        name: [(r.number, r.figures.get("value")) for r in metric_records if r.name == name]
        for name in names
    }
    return [_panel(name, "value number", [Curve(name, points(pairs[name]))]) for name in names]


def _panel(what: str, along: str, drawn: Iterable[Curve]) -> Panel:
    return Panel(what, along, tuple(curve for curve in drawn if curve.points))


def _by_epoch(epochs: Sequence[Record], what: str) -> list[Curve]:
    """The training and the validation curve of one metric."""
    names = {"training": what, "held out": f"val_{what}"}
    return [Curve(name, by_epoch(epochs, key)) for name, key in names.items()]


def _by_step(records: Sequence[Record]) -> list[Curve]:
    """One loss curve per host, named in the legend: the losses are not averaged."""
    progress = [record for record in records if record.kind == "progress"]
    pairs = {
        host: [(r.step, r.figures.get("loss")) for r in progress if r.host == host]
        for host in sorted({record.host for record in progress})
    }
    return [Curve(host or "training", points(own)) for host, own in pairs.items()]


def by_epoch(epochs: Sequence[Record], name: str) -> Points:
    """The values of a figure by epoch."""
    return points((record.epoch, record.figures.get(name)) for record in epochs)


def points(pairs: Iterable[tuple[float | None, float | None]]) -> Points:
    """(x, y) sorted by x; if x repeats after a resume, the later value counts. Values that cannot
    be drawn are ignored: Python's JSON may contain NaN, and numbers near the limit of a float."""
    by_x = {
        x: y
        for x, y in pairs
        if x is not None and y is not None and abs(x) < LARGEST and abs(y) < LARGEST
    }
    return tuple(sorted(by_x.items()))
