"""Curves and points over a pair of axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from railhead.documents.lazy import dataclass

from ..markup import Markup, element, joined
from .axes import Axis, axis, label
from .shapes import (
    COLOURS,
    GREYS,
    INK,
    STYLE,
    WIDTH,
    Look,
    columns_for,
    heading,
    legend,
    look,
    svg,
    tip,
    words,
)

HEIGHT = 260
LEFT, RIGHT, TOP, BOTTOM = 52, 10, 24, 58
Points = tuple[tuple[float, float], ...]
Projection = Callable[[tuple[float, float]], tuple[float, float]]  # data to pixels
MARGIN = 0.06  # around scattered points
MOST = 400  # points of a curve
MOST_TIPS = 120  # values of a chart that appear under the pointer
COLUMNS, HEAD = 3, 28  # of a sheet: charts in a row, and the height of its title


@dataclass(frozen=True)
class Curve:
    """One curve; `points` are (x, y), all finite. `spread`: the lowest and the highest measured y
    of each point."""

    name: str
    points: Points
    spread: Points = ()


@dataclass(frozen=True)
class Panel:
    """One pair of axes: their labels, and the curves.

    `from_zero`: the y axis starts at 0, so that heights can be compared. `best`: the number of the
    curve in colour, all others are grey. `scattered`: the points of a curve are not joined.
    """

    y_label: str
    x_label: str
    curves: tuple[Curve, ...]
    from_zero: bool = False
    best: int | None = None
    scattered: bool = False


def chart(panel: Panel) -> Markup:
    """The curves of a panel with axes, and a legend if there are several."""
    height, content = _chart(panel)
    return svg(height, f"{panel.y_label} by {panel.x_label}", content)


def sheet(panels: Sequence[Panel], title: str = "") -> Markup:
    """A file with the charts of all panels in rows, on white."""
    bottom = HEAD if title else 0.0
    charts = [element("text", title, x=LEFT, y=18, font_size=14, fill=INK)] if title else []
    for first in range(0, len(panels), COLUMNS):
        row = [_chart(panel) for panel in panels[first : first + COLUMNS]]
        charts += [
            element("g", content, transform=f"translate({WIDTH * column} {bottom:g})")
            for column, (_, content) in enumerate(row)
        ]
        bottom += max(height for height, _ in row)
    white = element("rect", width="100%", height="100%", fill="#fff")
    description = title or ", ".join(panel.y_label for panel in panels)
    width = WIDTH * min(len(panels), COLUMNS)
    return svg(bottom, description, element("style", STYLE), white, *charts, width=width)


def _chart(panel: Panel) -> tuple[float, Markup]:
    """The height of a chart, and its content."""
    across, up = _axes(panel)

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x = LEFT + across.place(point[0]) * (WIDTH - LEFT - RIGHT)
        y = HEIGHT - BOTTOM - up.place(point[1]) * (HEIGHT - TOP - BOTTOM)
        return round(x, 1), round(y, 1)

    lines = [
        *(_grid_y(value, place((across.low, value))[1]) for value in up.ticks),
        *(_grid_x(value, place((value, up.low))[0]) for value in across.ticks),
    ]
    every = -(-sum(len(curve.points) for curve in panel.curves) // MOST_TIPS)
    order = sorted(range(len(panel.curves)), key=lambda number: number == panel.best)
    drawn = [_curve(panel, number, place, max(every, 1)) for number in order]
    x_label = panel.x_label + (" (log)" if across.log else "")
    below = words(x_label, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 28, "middle")
    by = f" by {panel.x_label}" if panel.scattered else ""
    title = heading(panel.y_label + by + (" (log)" if up.log else ""), LEFT)
    several = panel.curves if len(panel.curves) > 1 and not panel.scattered else ()
    columns = columns_for([curve.name for curve in several])
    names = [
        legend(n, curve.name, _look(panel, n), HEIGHT - 14, columns)
        for n, curve in enumerate(several)
    ]
    rows = max(0, (len(names) - 1) // columns)
    return HEIGHT + 16 * rows, joined([title, *lines, below, *names, *drawn])


def _axes(panel: Panel) -> tuple[Axis, Axis]:
    points = [point for curve in panel.curves for point in curve.points]
    spread = [value for curve in panel.curves for pair in curve.spread for value in pair]
    if panel.scattered:
        xs, ys = zip(*points, strict=True)
        return axis(xs, log=True, margin=MARGIN), axis(ys, margin=MARGIN)
    return (
        axis([x for x, _ in points], whole=True),
        axis([*(y for _, y in points), *spread], from_zero=panel.from_zero, log=True),
    )


def _look(panel: Panel, number: int) -> Look:
    if panel.best is None:
        return look(number)
    return (COLOURS[0], "") if number == panel.best else look(number, GREYS)


def _curve(panel: Panel, number: int, place: Projection, every: int) -> Markup:
    curve, (colour, dash) = panel.curves[number], _look(panel, number)
    step = -(-len(curve.points) // MOST)
    points = [*curve.points[::step]]
    if points[-1] != curve.points[-1]:
        points.append(curve.points[-1])
    parts = []
    if not panel.scattered:
        path = " ".join(f"{x},{y}" for x, y in map(place, points))
        width = 2.8 if number == panel.best else 1.8
        parts.append(element(
            "polyline", points=path, fill="none", stroke=colour, stroke_width=width,
            stroke_dasharray=dash,
        ))  # fmt: skip
    for (x, _), (low, high) in zip(curve.points, curve.spread, strict=False):
        (column, bottom), (_, top) = place((x, low)), place((x, high))
        parts.append(element(
            "line", x1=column, x2=column, y1=bottom, y2=top, stroke=colour, stroke_width=5,
            stroke_opacity=0.35,
        ))  # fmt: skip
    radius = 4 if panel.scattered else 2.4 if len(points) <= 30 else 0
    for point in points[::every]:
        parts.append(_dot(panel, curve, point, place, colour, radius))
    return joined(parts)


def _dot(
    panel: Panel, curve: Curve, point: tuple[float, float], place: Projection, colour: str, r: float
) -> Markup:
    """A point, which shows its values."""
    x, y = place(point)
    area = element("circle", cx=x, cy=y, r=max(r + 2, 6), fill=colour, fill_opacity=0)
    dot = [element("circle", cx=x, cy=y, r=r, fill=colour)] if r else []
    name = f"{curve.name}, " if len(panel.curves) > 1 or panel.scattered else ""
    return tip(f"{name}{panel.x_label} {label(point[0])}: {label(point[1])}", *dot, area)


def _grid_y(value: float, y: float) -> Markup:
    line = element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, stroke="#e4e8ec")
    return joined([line, words(label(value), LEFT - 5, y + 4, "end")])


def _grid_x(value: float, x: float) -> Markup:
    line = element("line", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM, stroke="#f0f2f4")
    return joined([line, words(label(value), x, HEIGHT - BOTTOM + 14, "middle")])
