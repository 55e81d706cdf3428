"""HTML and SVG as text: every value is escaped here, unless its type is Markup. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from .text import clean

NOT_XML = {0xFFFE: None, 0xFFFF: None}  # an SVG file cannot contain them


class Markup(str):
    """HTML or SVG from this code; any other text is escaped when it is put into a page."""

    __slots__ = ()


def text(value: object) -> Markup:
    """A value as escaped text; Markup stays as it is."""
    return value if isinstance(value, Markup) else Markup(_escaped(value))


def element(tag: str, *content: object, **attributes: object) -> Markup:
    """An element; `class_` is the attribute class."""
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_escaped(value)}"'
        for name, value in attributes.items()
    )
    return Markup(f"<{tag}{named}>{''.join(map(text, content))}</{tag}>")


def joined(parts: Iterable[Markup]) -> Markup:
    """The parts, one after the other."""
    return Markup("".join(parts))


def _escaped(value: object) -> str:
    return escape(clean(str(value)).translate(NOT_XML))
