"""The curves of a run: loss and accuracy, and the values of --metric."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bootstrap.console.svg import Curve, Panel, sheet
from bootstrap.console.text import number
from bootstrap.runs.metrics.options import MOST_METRICS
from bootstrap.untrusted.decode import record

Record = dict[str, Any]
LARGEST = 1e100


def curves(metrics: Path, title: str) -> str:
    """metrics.jsonl as the text of an SVG file; "" if there is nothing to draw."""
    drawn = panels(records(metrics))
    return sheet(drawn, title) if drawn else ""


def records(metrics: Path) -> list[Record]:
    """All records of the file; lines that are not JSON objects (a partial last one) are skipped."""
    if not metrics.is_file():
        return []
    lines = metrics.read_text(encoding="utf-8", errors="replace").splitlines()
    return [found for line in lines if (found := record(line))]


def panels(records: Sequence[Record]) -> list[Panel]:
    """Loss and accuracy by epoch, and each --metric; while there is neither, each host's loss by
    step."""
    epochs = [record for record in records if record.get("kind") == "epoch"]
    both = [_panel(what, "epoch", _by_epoch(epochs, what)) for what in ("loss", "accuracy", "mae")]
    drawn = [panel for panel in (*both, *_metric_panels(records)) if panel.curves]
    if drawn:
        return drawn
    early = _panel("loss", "step", _by_step(records))
    return [early] if early.curves else []


def _metric_panels(records: Sequence[Record]) -> list[Panel]:
    """One panel for each --metric, by the number of the value."""
    found = [record for record in records if record.get("kind") == "metric"]
    names = sorted({str(record.get("name")) for record in found})[:MOST_METRICS]
    own = {name: [r for r in found if r.get("name") == name] for name in names}
    return [
        _panel(name, "value number", [Curve(name, points(own[name], "number", "value"))])
        for name in names
    ]


def _panel(what: str, along: str, found: Iterable[Curve]) -> Panel:
    return Panel(what, along, tuple(curve for curve in found if curve.points))


def _by_epoch(epochs: Sequence[Record], what: str) -> list[Curve]:
    """The training and the validation curve of one metric."""
    names = {"training": what, "held out": f"val_{what}"}
    return [Curve(name, points(epochs, "epoch", key)) for name, key in names.items()]


def _by_step(records: Sequence[Record]) -> list[Curve]:
    """One loss curve per host, named in the legend: the losses are not averaged."""
    progress = [record for record in records if record.get("kind") == "progress"]
    hosts = sorted({str(record.get("host", "training")) for record in progress})
    by_host = {
        name: [r for r in progress if str(r.get("host", "training")) == name] for name in hosts
    }
    return [Curve(name, points(own, "step", "loss")) for name, own in by_host.items()]


def points(records: Sequence[Record], x: str, y: str) -> tuple[tuple[float, float], ...]:
    """(x, y) sorted by x; if x repeats after a resume, the later record counts."""
    pairs = {
        along: height
        for record in records
        if (along := _drawable(record, x)) is not None
        and (height := _drawable(record, y)) is not None
    }
    return tuple(sorted(pairs.items()))


def _drawable(record: Record, key: str) -> float | None:
    """A number that can be drawn, else None: Python's JSON may contain NaN, Infinity and
    numbers near the limit of a float."""
    value = number(record, key)
    return value if value is not None and abs(value) < LARGEST else None
