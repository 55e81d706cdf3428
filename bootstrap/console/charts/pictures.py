"""Pictures without axes for curves: bars with parts, a timeline, a confusion matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from railhead.documents.lazy import dataclass

from ..markup import Markup, element, joined
from ..text import duration
from .axes import ticks
from .shapes import COLOURS, INK, WIDTH, box, heading, legend, look, shortened, svg, tip, words

TOP, ROW, ROOM = 24, 26, 90  # the first row, its height, the place of its name
CELL, CELL_NAME, LETTER = 26, 14, 6.4  # side of a cell; letters of a name, width of a letter
RIGHT_CELL, WRONG_CELL = "#1a7f37", "#b42318"
LEAST_SPAN = 1.5  # pixels: a shorter span can still be seen


@dataclass(frozen=True)
class Span:
    """A time in a row of a timeline, in seconds from its begin; `end` None: a moment."""

    row: str
    text: str
    begin: float
    end: float | None = None


def stacked(
    title: str, rows: Mapping[str, Sequence[float]], parts: Sequence[str], unit: str
) -> Markup:
    """One bar for each row, divided into its parts."""
    most = max((sum(values) for values in rows.values()), default=0) or 1.0
    drawn = []
    for index, (name, values) in enumerate(rows.items()):
        x, y = float(ROOM), TOP + index * ROW
        drawn.append(words(name[:14], ROOM - 6, y + 14, "end"))
        for part_name, colour, value in zip(parts, COLOURS, values, strict=False):
            width = value / most * (WIDTH - 150)
            label = f"{name}, {part_name}: {value:.4g} {unit}"
            drawn.append(tip(label, box(x, y, width, 20, colour)))
            x += width
        drawn.append(words(f"{sum(values):.3g} {unit}", x + 4, y + 14))
    bottom = TOP + len(rows) * ROW + 14
    several = parts if len(parts) > 1 else ()
    drawn += [legend(n, name, look(n), bottom, 1) for n, name in enumerate(several)]
    return svg(bottom + 16 * len(parts), title, heading(title, 4), *drawn)


def timeline(title: str, spans: Sequence[Span]) -> Markup:
    """A row for each kind of span, along the time."""
    rows = [*dict.fromkeys(span.row for span in spans)]
    last = max((span.begin if span.end is None else span.end for span in spans), default=0) or 1.0
    scale = (WIDTH - ROOM - 14) / last
    bottom = TOP + len(rows) * ROW
    drawn = []
    for seconds in ticks(0, last):
        x = ROOM + seconds * scale
        line = element("line", x1=x, x2=x, y1=TOP, y2=bottom, stroke="#e4e8ec")
        text = duration(seconds) if seconds else "0"
        drawn += [line, words(text, x, bottom + 14, "middle")]
    drawn += [words(shortened(row, 13), ROOM - 6, TOP + n * ROW + 14, "end")
              for n, row in enumerate(rows)]  # fmt: skip
    numbers = dict.fromkeys(rows, 0)  # of spans in a row, so that neighbours differ
    for span in spans:
        numbers[span.row] += 1
        end = span.begin if span.end is None else span.end
        width = max((end - span.begin) * scale, LEAST_SPAN)
        colour = COLOURS[rows.index(span.row) % len(COLOURS)]
        bar = box(ROOM + span.begin * scale, TOP + rows.index(span.row) * ROW, width, 20, colour)
        if numbers[span.row] % 2 == 0:
            bar = element("g", bar, opacity=0.6)
        took = f" ({duration(end - span.begin)})" if span.end is not None else ""
        drawn.append(tip(f"{duration(span.begin)}: {span.text}{took}", bar))
    return svg(bottom + 22, title, heading(title, 4), *drawn)


def matrix(names: Sequence[str], rows: Sequence[Sequence[float]]) -> Markup:
    """A confusion matrix: a row for each label, a column for each prediction. A cell is the darker,
    the larger its share of the row. It shrinks as a whole."""
    shown = [shortened(name, CELL_NAME) for name in names]
    room = 8 + LETTER * max(len("label"), *map(len, shown))
    size = CELL * len(rows)
    drawn = [words("label", room - 4, room - 4, "end")]
    for index, (name, row) in enumerate(zip(shown, rows, strict=True)):
        baseline = room + index * CELL + CELL / 2 + 4
        drawn.append(words(name, room - 4, baseline, "end"))
        drawn.append(_upright(name, baseline, room - 4))
        total = sum(row) or 1.0
        drawn += [
            _cell((index, column), (room, names), value, value / total)
            for column, value in enumerate(row)
            if value
        ]
    description = "confusion matrix, a row for each label, a column for each prediction"
    drawn.append(element(
        "rect", x=room, y=room, width=size, height=size, fill="none", stroke="#d0d7de",
        stroke_width=1,
    ))  # fmt: skip
    side = room + size + 2
    drawn_svg = svg(side, description, *drawn, width=side)
    return element("div", drawn_svg, class_="matrix", style=f"--most:{side * 1.4:.0f}px")


def _cell(
    cell: tuple[int, int], grid: tuple[float, Sequence[str]], value: float, share: float
) -> Markup:
    """A cell (row, column) of the grid (its begin, its names) with its count."""
    (row, column), (room, names) = cell, grid
    x, y, share = room + column * CELL, room + row * CELL, min(max(share, 0.0), 1.0)
    figure = f"{value:.0f}"
    size = min(11.0, (CELL - 3) / len(figure) / 0.6)
    title = element("title", f"{names[row]}, predicted {names[column]}: {figure}")
    return joined([
        element("rect", title, x=x, y=y, width=CELL, height=CELL, fill_opacity=f"{share:.2f}",
                fill=RIGHT_CELL if row == column else WRONG_CELL),
        element("text", figure, x=x + CELL / 2, y=y + CELL / 2 + size * 0.35,
                fill="#fff" if share > 0.6 else INK, font_size=round(size, 1),
                text_anchor="middle", pointer_events="none"),
    ])  # fmt: skip


def _upright(content: str, x: float, y: float) -> Markup:
    turn = f"rotate(-90 {round(x, 1)} {round(y, 1)})"
    return element(
        "text", content, x=round(x, 1), y=round(y, 1), font_size=11, transform=turn, fill="#57606a"
    )
