"""The generated parts of a page: between `<!-- generated: NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PART = re.compile(
    r"^<!-- generated: (?P<name>[\w.-]+) -->\n(?P<text>.*?)^<!-- end -->\n", re.M | re.S
)


def filled(page: str, parts: Mapping[str, str]) -> str:
    """The page with these parts.

    Raises:
        SystemExit: the page lacks a part, or has one that nothing generates.
    """
    names = [match["name"] for match in PART.finditer(page)]
    if sorted(names) != sorted(parts):
        wrong = ", ".join(sorted({*names} ^ {*parts}) or names)
        raise SystemExit(f"generated parts that are missing, unknown or twice in a page: {wrong}")
    return PART.sub(lambda part: marked(part["name"], parts[part["name"]]), page)


def marked(name: str, text: str) -> str:
    """A part with its marks."""
    return f"<!-- generated: {name} -->\n{text}<!-- end -->\n"


def by_hand(page: str) -> str:
    """The page without its generated parts and without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```$", "", PART.sub("", page), flags=re.M | re.S)


def about(module: str) -> str:
    """The first paragraph of a module's docstring, on one line, without its last full stop."""
    path = ROOT / f"{module.replace('.', '/')}.py"
    path = path if path.exists() else path.with_suffix("") / "__init__.py"
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(text.partition("\n\n")[0].split()).removesuffix(".")


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return (
        "".join(f"| {' | '.join(map(str, cells))} |\n" for cells in lines)
        .replace("| --- ", "|---")
        .replace("--- |", "---|")
    )
