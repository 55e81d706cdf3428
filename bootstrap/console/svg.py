"""Charts as SVG, in a page or as a file, without a library. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .markup import Markup, element, joined

WIDTH, HEIGHT = 400, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 10, 24, 58
Projection = Callable[[tuple[float, float]], tuple[float, float]]  # data to pixels
COLOURS = ("#0b5cad", "#c2410c", "#1a7f37", "#7e22ce", "#b7791f", "#0f766e", "#be185d", "#57606a")
DASHES = (
    "", "6 3", "2 2", "8 3 2 3", "12 3", "4 6", "1 3", "12 3 2 3 2 3", "6 6", "2 6", "16 4", "4 2",
    "8 8",
)  # fmt: skip
MOST = 400  # points of a curve
CELL, CELL_NAME, LETTER = 26, 14, 6.4  # side of a cell; letters of a name, width of a letter
LEAST = 0.7
RIGHT_CELL, WRONG_CELL = "#1a7f37", "#b42318"
SMALLEST = 1e-100  # a smaller span counts as zero: its ticks cannot be computed
COLUMNS, HEAD = 3, 28  # of a sheet: charts in a row, and the height of its title


@dataclass(frozen=True)
class Curve:
    """One curve; `points` are (x, y), all finite."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Panel:
    """One pair of axes: the labels of y (`what`) and x (`along`), and the curves. `from_zero`: the
    y axis starts at 0, so that heights can be compared."""

    what: str
    along: str
    curves: tuple[Curve, ...]
    from_zero: bool = False


def chart(panel: Panel) -> Markup:
    """The curves of a panel with axes, and a legend if there are several."""
    height, content = _chart(panel)
    return _svg(height, f"{panel.what} by {panel.along}", content)


def sheet(panels: Sequence[Panel], title: str = "") -> Markup:
    """A file with the charts of all panels in rows, on white."""
    bottom = HEAD if title else 0.0
    charts = [element("text", title, x=LEFT, y=18, font_size=14, fill="#1b1f24")] if title else []
    for first in range(0, len(panels), COLUMNS):
        row = [_chart(panel) for panel in panels[first : first + COLUMNS]]
        charts += [
            element("g", content, transform=f"translate({WIDTH * column} {bottom:g})")
            for column, (_, content) in enumerate(row)
        ]
        bottom += max(height for height, _ in row)
    white = element("rect", width="100%", height="100%", fill="#fff")
    what = title or ", ".join(panel.what for panel in panels)
    return _svg(bottom, what, white, *charts, width=WIDTH * min(len(panels), COLUMNS))


def _chart(panel: Panel) -> tuple[float, Markup]:
    """The height of a chart, and its content."""
    points = [point for curve in panel.curves for point in curve.points]
    left, right = _range([x for x, _ in points])
    low, high = _range([y for _, y in points], from_zero=panel.from_zero)

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x = LEFT + (point[0] - left) / (right - left) * (WIDTH - LEFT - RIGHT)
        y = HEIGHT - BOTTOM - (point[1] - low) / (high - low) * (HEIGHT - TOP - BOTTOM)
        return round(x, 1), round(y, 1)

    lines = [
        *(_grid_y(value, place((left, value))[1]) for value in ticks(low, high)),
        *(_grid_x(value, place((value, low))[0]) for value in ticks(left, right, whole=True)),
    ]
    drawn = [_curve(number, curve, place) for number, curve in enumerate(panel.curves)]
    along = _text(panel.along, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 28, "middle")
    what = _shortened(panel.what, 52)
    title = element("text", what, x=LEFT, y=14, font_size=13, font_weight=600, fill="#1b1f24")
    several = panel.curves if len(panel.curves) > 1 else ()
    columns = _columns([curve.name for curve in several])
    legend = [_legend(n, curve.name, columns=columns) for n, curve in enumerate(several)]
    rows = max(0, (len(legend) - 1) // columns)
    return HEIGHT + 16 * rows, joined([title, *lines, along, *drawn, *legend])


def stacked(
    title: str, rows: Mapping[str, Sequence[float]], parts: Sequence[str], unit: str
) -> Markup:
    """One bar for each row, divided into its parts."""
    most = max((sum(values) for values in rows.values()), default=0) or 1.0
    height, room = 20, WIDTH - 150
    parts_drawn = []
    for index, (name, values) in enumerate(rows.items()):
        x, y = 90.0, TOP + index * (height + 6)
        parts_drawn.append(_text(name[:14], 84, y + 14, "end"))
        for part, value in enumerate(values):
            width = value / most * room
            parts_drawn.append(
                _rect(x, y, width, height, COLOURS[part], f"{parts[part]}: {value:.4g} {unit}")
            )
            x += width
        parts_drawn.append(_text(f"{sum(values):.3g} {unit}", x + 4, y + 14, "start"))
    bottom = TOP + len(rows) * (height + 6) + 14
    parts_drawn += [_legend(n, part, bottom, 1) for n, part in enumerate(parts) if len(parts) > 1]
    head = element("text", title, x=4, y=14, font_size=13, font_weight=600, fill="#1b1f24")
    return _svg(bottom + 16 * len(parts), title, head, *parts_drawn)


def matrix(names: Sequence[str], rows: Sequence[Sequence[float]]) -> Markup:
    """A confusion matrix: a row for each label, a column for each prediction. A cell is the darker,
    the larger its share of the row. The matrix shrinks as a whole, on a screen down to LEAST of its
    size."""
    shown = [_shortened(name, CELL_NAME) for name in names]
    room = 8 + LETTER * max(len("label"), *map(len, shown))
    size = CELL * len(rows)
    drawn_cells = [_text("label", room - 4, room - 4, "end")]
    for index, (name, row) in enumerate(zip(shown, rows, strict=True)):
        at = room + index * CELL
        drawn_cells.append(_text(name, room - 4, at + CELL / 2 + 4, "end"))
        drawn_cells.append(_upright(name, at + CELL / 2 + 4, room - 4))
        total = sum(row) or 1.0
        drawn_cells += [
            _cell(room + column * CELL, at, value, value / total, right=index == column)
            for column, value in enumerate(row)
            if value
        ]
    what = "confusion matrix, a row for each label, a column for each prediction"
    drawn_cells.append(_frame(room, room, size))
    side = room + size + 2
    drawn = element("div", _svg(side, what, *drawn_cells, width=side), class_="matrix",
                    style=f"--least:{side * LEAST:.0f}px;--most:{side * 1.4:.0f}px")  # fmt: skip
    return element("div", drawn, class_="scroll")


def _cell(x: float, y: float, value: float, part: float, *, right: bool) -> Markup:
    part = min(max(part, 0.0), 1.0)
    colour = RIGHT_CELL if right else WRONG_CELL
    figure = f"{value:.0f}"
    size = min(11.0, (CELL - 3) / len(figure) / 0.6)
    ink = "#fff" if part > 0.6 else "#1b1f24"
    return joined([
        element("rect", x=x, y=y, width=CELL, height=CELL, fill=colour, fill_opacity=f"{part:.2f}"),
        element("text", figure, x=x + CELL / 2, y=y + CELL / 2 + size * 0.35, fill=ink,
                font_size=round(size, 1), text_anchor="middle"),
    ])  # fmt: skip


def _frame(x: float, y: float, size: float) -> Markup:
    return element(
        "rect", x=x, y=y, width=size, height=size, fill="none", stroke="#d0d7de", stroke_width=1
    )


def _upright(content: str, x: float, y: float) -> Markup:
    turn = f"rotate(-90 {round(x, 1)} {round(y, 1)})"
    return element(
        "text", content, x=round(x, 1), y=round(y, 1), font_size=11, transform=turn, fill="#57606a"
    )


def _shortened(name: str, most: int) -> str:
    """A name in at most `most` letters. Its end is kept: it differs from other names there."""
    return name if len(name) <= most else f"...{name[3 - most :]}"


def ticks(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Round numbers from `low` to `high`, about five; `whole`: integers only."""
    span = max(high - low, 4.0 if whole else 0.0)
    step = 10.0 ** math.floor(math.log10(span / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 5)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, first + 12) if n * step <= high + step * 1e-9]


def label(value: float) -> str:
    """A number on an axis."""
    if value and (abs(value) >= 1e6 or abs(value) < 1e-3):
        return f"{value:.1e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _range(values: Sequence[float], *, from_zero: bool = False) -> tuple[float, float]:
    low, high = min(values), max(values)
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low <= max(abs(high) * 1e-12, SMALLEST):
        pad = abs(high) * 0.1 if abs(high) > SMALLEST else 1.0
        return low - pad, high + pad
    return low, high


def _curve(number: int, curve: Curve, place: Projection) -> Markup:
    step = -(-len(curve.points) // MOST)
    points = [*curve.points[::step]]
    if points[-1] != curve.points[-1]:
        points.append(curve.points[-1])
    placed = [place(point) for point in points]
    colour, dash = _look(number)
    path = " ".join(f"{x},{y}" for x, y in placed)
    line = element(
        "polyline", element("title", curve.name), points=path, fill="none", stroke=colour,
        stroke_width=1.8, stroke_dasharray=dash,
    )  # fmt: skip
    dots = [
        element("circle", cx=x, cy=y, r=2.4, fill=colour) for x, y in placed if len(placed) <= 30
    ]
    return joined([line, *dots])


def _look(number: int) -> tuple[str, str]:
    return COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]


def _columns(names: Sequence[str]) -> int:
    """The number of columns of a legend in which its names fit."""
    longest = max(map(len, names), default=0)
    return 3 if longest <= 16 else 2 if longest <= 26 else 1


def _legend(number: int, name: str, y: float = HEIGHT - 14, columns: int = 3) -> Markup:
    x, y = 8 + number % columns * (393 // columns), y + number // columns * 16
    room = (393 // columns - 24) // 6
    colour, dash = _look(number)
    line = element(
        "line", x1=x, x2=x + 16, y1=y - 4, y2=y - 4, stroke=colour, stroke_width=3,
        stroke_dasharray=dash,
    )  # fmt: skip
    return joined([line, _text(_shortened(name, room), x + 20, y)])


def _grid_y(value: float, y: float) -> Markup:
    line = element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, stroke="#e4e8ec")
    return joined([line, _text(label(value), LEFT - 5, y + 4, "end")])


def _grid_x(value: float, x: float) -> Markup:
    line = element("line", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM, stroke="#f0f2f4")
    return joined([line, _text(label(value), x, HEIGHT - BOTTOM + 14, "middle")])


def _text(content: str, x: float, y: float, anchor: str = "start") -> Markup:
    return element(
        "text",
        content,
        x=round(x, 1),
        y=round(y, 1),
        font_size=11,
        text_anchor=anchor,
        fill="#57606a",
    )


def _rect(x: float, y: float, width: float, height: float, colour: str, title: str) -> Markup:
    inner = element("title", title)
    return element(
        "rect",
        inner,
        x=round(x, 1),
        y=round(y, 1),
        width=round(max(width, 0), 1),
        height=height,
        fill=colour,
    )


def _svg(height: float, what: str, *content: Markup, width: float = WIDTH) -> Markup:
    width, height = round(width), round(height)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    font = 'font-family="system-ui,Liberation Sans,sans-serif"'
    body = joined([element("title", what), *content])
    return Markup(f'<svg {size} role="img" {font} xmlns="http://www.w3.org/2000/svg">{body}</svg>')
