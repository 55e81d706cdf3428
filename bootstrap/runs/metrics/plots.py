"""Draws the curves of a run as one image: loss and accuracy, and the values of --metric."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bootstrap.console.text import clean
from bootstrap.runs.metrics.options import MOST_METRICS
from bootstrap.untrusted.records import records
from railhead.documents.records import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = tuple[tuple[float, float], ...]
LARGEST = 1e100
INSIDE, COLUMNS = 8, 2  # curves that are named inside the axes; columns of more names, below them
COLOURS = 10  # of matplotlib; a curve that has the colour of another one has other dashes
LINES = ("-", "--", ":", "-.", *((0, (n, 2, 1, 2)) for n in range(4, 24, 3)))


@dataclass(frozen=True)
class Curve:
    """One curve; `points` are (x, y), all finite."""

    name: str
    points: Points


@dataclass(frozen=True)
class Panel:
    """One pair of axes: labels of y (`what`) and x (`along`), and the curves. `from_zero`: the axis
    of y begins at 0, so that heights can be compared."""

    what: str
    along: str
    curves: tuple[Curve, ...]
    from_zero: bool = False


def curves(metrics: Path, out: Path, title: str) -> bool:
    """Draw metrics.jsonl into the PNG `out`; False (and no file) when there is nothing to draw."""
    found = panels(records(metrics))
    if not found:
        return False
    out.parent.mkdir(parents=True, exist_ok=True)
    draw(found, out, title)
    return True


def panels(records: Sequence[Record]) -> list[Panel]:
    """Loss and accuracy by epoch, and each --metric; while there is neither, each host's loss by
    step."""
    epochs = [record for record in records if record.kind == "epoch"]
    both = [_panel(what, "epoch", _by_epoch(epochs, what)) for what in ("loss", "accuracy", "mae")]
    drawn = [panel for panel in (*both, *_metric_panels(records)) if panel.curves]
    if drawn:
        return drawn
    early = _panel("loss", "step", _by_step(records))
    return [early] if early.curves else []


def _metric_panels(records: Sequence[Record]) -> list[Panel]:
    """One panel for each --metric, by the number of the value."""
    found = [record for record in records if record.kind == "metric"]
    names = sorted({record.name for record in found})[:MOST_METRICS]
    pairs = {
        name: [(r.number, r.figures.get("value")) for r in found if r.name == name]
        for name in names
    }
    return [_panel(name, "value number", [Curve(name, points(pairs[name]))]) for name in names]


def _panel(what: str, along: str, found: Iterable[Curve]) -> Panel:
    return Panel(what, along, tuple(curve for curve in found if curve.points))


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
    """(x, y) sorted by x; if x repeats after a resume, the later one counts. Values that cannot be
    drawn are left out: Python's JSON may contain NaN, and numbers near the limit of a float."""
    found = {
        x: y
        for x, y in pairs
        if x is not None and y is not None and abs(x) < LARGEST and abs(y) < LARGEST
    }
    return tuple(sorted(found.items()))


def draw(panels: Sequence[Panel], out: Path, title: str) -> None:
    """Draw with matplotlib's Agg backend: no display, no global state. The import is slow."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = max(len(panel.curves) for panel in panels)
    height = 3.6 if names <= INSIDE else 3.6 + 0.2 * -(-names // COLUMNS)
    figure = Figure(figsize=(4.8 * len(panels), height), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, parse_math=False)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        _draw_panel(figure, axes, panel)
    figure.savefig(out, format="png")


def _draw_panel(figure: Figure, axes: Axes, panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator

    for index, curve in enumerate(panel.curves):
        xs, ys = zip(*curve.points, strict=True)
        axes.plot(
            xs,
            ys,
            marker="o" if len(xs) <= 30 else "",
            markersize=4,
            linestyle=LINES[index // COLOURS % len(LINES)],
            label=_label(curve.name),
        )
    if panel.from_zero:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(panel.along)
    axes.set_ylabel(_label(panel.what), parse_math=False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    many = len(panel.curves) > INSIDE
    below = {"loc": "outside lower center", "ncols": COLUMNS, "fontsize": 6}
    legend = figure.legend(**below) if many else axes.legend()
    for text in legend.get_texts():
        text.set_parse_math(False)


def _label(name: str) -> str:
    """A name that a host may have written, as text that matplotlib can draw."""
    shown = clean(name)[:80]
    return f" {shown}" if shown.startswith("_") else shown or "?"  # it hides names with a "_"
