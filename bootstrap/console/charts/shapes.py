"""The parts of a picture: texts, lines, bars, legends, and values that appear under the pointer."""

from __future__ import annotations

from ..markup import Markup, element, joined

WIDTH = 400
INK, DIM = "#1b1f24", "#57606a"
COLOURS = ("#0b5cad", "#c2410c", "#1a7f37", "#7e22ce", "#b7791f", "#0f766e", "#be185d", "#57606a")
GREYS = ("#8c959f", "#adb5bd", "#6e7781", "#c4cad0")
DASHES = (
    "", "6 3", "2 2", "8 3 2 3", "12 3", "4 6", "1 3", "12 3 2 3 2 3", "6 6", "2 6", "16 4", "4 2",
    "8 8",
)  # fmt: skip
# A page and a file with pictures have this style: a value appears while the pointer, or a finger,
# is on its point.
STYLE = (
    ".tip text{paint-order:stroke;stroke:#fff;stroke-width:5px}"
    ".tip:hover text{visibility:visible}.tip:hover circle,.tip:hover rect{stroke:#1b1f24}"
)

Look = tuple[str, str]  # a colour and the dashes of a line


def look(number: int, colours: tuple[str, ...] = COLOURS) -> Look:
    """How the curve with this number looks."""
    return colours[number % len(colours)], DASHES[number // len(colours) % len(DASHES)]


def svg(height: float, description: str, *content: Markup, width: float = WIDTH) -> Markup:
    """A whole picture."""
    width, height = round(width), round(height)
    return element(
        "svg", *content, viewBox=f"0 0 {width} {height}", width=width, height=height, role="img",
        aria_label=description, font_family="system-ui,Liberation Sans,sans-serif",
        xmlns="http://www.w3.org/2000/svg",
    )  # fmt: skip


def tip(label: str, *shape: Markup) -> Markup:
    """A shape, and the label that appears at the top of the picture while the pointer is on it."""
    text = element("g", words(label, WIDTH - 4, 14, "end", INK), visibility="hidden")
    return element("g", *shape, text, class_="tip")


def heading(title: str, x: float) -> Markup:
    """The title of a picture."""
    return element("text", shortened(title, 52), x=x, y=14, font_size=13, font_weight=600, fill=INK)


def words(content: str, x: float, y: float, anchor: str = "start", fill: str = DIM) -> Markup:
    """A text."""
    return element(
        "text", content, x=round(x, 1), y=round(y, 1), font_size=11, text_anchor=anchor, fill=fill
    )


def box(x: float, y: float, width: float, height: float, colour: str) -> Markup:
    """A filled rectangle."""
    width = round(max(width, 0), 1)
    return element("rect", x=round(x, 1), y=round(y, 1), width=width, height=height, fill=colour)


def columns_for(names: list[str]) -> int:
    """The number of columns of a legend in which its names fit."""
    longest = max(map(len, names), default=0)
    return 3 if longest <= 16 else 2 if longest <= 26 else 1


def legend(number: int, name: str, shown: Look, y: float, columns: int = 3) -> Markup:
    """The entry of a legend with this number; `y`: that of its first row."""
    x, y = 8 + number % columns * (393 // columns), y + number // columns * 16
    room = (393 // columns - 24) // 6
    line = element(
        "line", x1=x, x2=x + 16, y1=y - 4, y2=y - 4, stroke=shown[0], stroke_width=3,
        stroke_dasharray=shown[1],
    )  # fmt: skip
    return joined([line, words(shortened(name, room), x + 20, y)])


def shortened(name: str, most: int) -> str:
    """A name in at most `most` letters. Its end is kept: it differs from other names there."""
    return name if len(name) <= most else f"...{name[3 - most :]}"
