"""The parts of an HTML page. Pure.

The page is complete in itself, and its policy forbids every request.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from ..console.charts import shapes
from ..console.charts.chart import Panel, chart
from ..console.markup import Markup, element, joined, text
from ..console.text import clean

STYLE = Path(__file__).with_name("style.css")
PAGE = "report.html"  # the file of a page, in the folder of its runs
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(title: str, body: Iterable[Markup]) -> str:
    """The whole document."""
    head = (
        '<meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<link rel="icon" href="data:,"><title>{text(title)}</title>'
        f"<style>{STYLE.read_text()}{shapes.STYLE}</style>"
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{joined(body)}</body></html>\n'
    )


def section(title: str, *content: Markup) -> Markup:
    """A section with its heading; empty without content."""
    pieces = [piece for piece in content if piece]
    return element("section", element("h2", title), *pieces) if pieces else Markup("")


def details(title: str, *content: Markup) -> Markup:
    """Content that is shown after a click on its title; empty without content."""
    pieces = [piece for piece in content if piece]
    return element("details", element("summary", title), *pieces) if pieces else Markup("")


def table(
    head: Sequence[object], rows: Iterable[Sequence[object]], best: int | None = None
) -> Markup:
    """A table in its own scroll box, without empty columns; numbers are aligned right. `best`: the
    index of a row to mark."""
    rows = [tuple(row) for row in rows]
    columns = [n for n in range(len(head)) if any(row[n] not in ("", None) for row in rows)]
    head, rows = [head[n] for n in columns], [tuple(row[n] for n in columns) for row in rows]
    cells = [
        element(
            "tr",
            *(_cell("td", value) for value in row),
            **({"class_": "best"} if number == best else {}),
        )
        for number, row in enumerate(rows)
    ]
    first = element("tr", *(element("th", value) for value in head))
    body = element("table", element("thead", first), element("tbody", *cells))
    return element("div", body, class_="scroll") if cells else Markup("")


def pairs(values: Mapping[str, object]) -> Markup:
    """A table of names and values, without empty values."""
    rows = [(element("span", name, class_="dim"), value) for name, value in values.items()]
    body = table(("", ""), [row for row in rows if row[1] not in ("", None)])
    return element("div", body, class_="pairs") if body else body


def tiles(values: Mapping[str, str]) -> Markup:
    """Figures in boxes: {label: figure}."""
    boxes = [
        element("div", element("b", figure), element("span", label), class_="tile")
        for label, figure in values.items()
    ]
    return element("div", *boxes, class_="tiles")


def charts(panels: Iterable[Panel], *pictures: Markup) -> Markup:
    """The charts of panels and other pictures, side by side; empty without any."""
    figures = [element("figure", drawn) for drawn in (*map(chart, panels), *pictures)]
    return element("div", *figures, class_="charts") if figures else Markup("")


def picture(png: bytes, caption: Markup, alt: str) -> Markup:
    """A PNG image inside the page."""
    data = base64.b64encode(png).decode()
    image = Markup(f'<img src="data:image/png;base64,{data}" alt="{escape(clean(alt))}">')
    return element("figure", image, element("figcaption", caption))


def _cell(tag: str, value: object) -> Markup:
    plain = str(value).replace(",", "").replace(" %", "").strip()
    try:
        float(plain)
    except ValueError:
        return element(tag, value)
    return element(tag, value, class_="n")
