"""The generated parts of a page: between `<!-- generated: NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
INSIDE = re.compile(r"\]\(#([\w-]+)\)")  # a link to a heading of the same page
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
    return PART.sub(lambda match: marked(match["name"], parts[match["name"]]), page)


def spread(names: Sequence[str], parts: Mapping[str, str]) -> dict[Path, str]:
    """Pages of docs that share these parts. A link of a part is written as if all were one page.

    Raises:
        SystemExit: as `filled`.
    """
    texts = {name: (DOCS / name).read_text() for name in names}
    home = {anchor: name for name, text in texts.items() for anchor in anchors(text)}

    def link(match: re.Match[str], page: str) -> str:
        there = home[match[1]]
        return f"](#{match[1]})" if there == page else f"]({there}#{match[1]})"

    def linked(name: str, page: str) -> str:
        return INSIDE.sub(lambda match: link(match, page), parts[name])

    have = {match["name"] for text in texts.values() for match in PART.finditer(text)}
    if wrong := have ^ {*parts}:
        raise SystemExit(f"generated parts that no page or nothing has: {', '.join(sorted(wrong))}")
    return {
        DOCS / page: filled(text, {m["name"]: linked(m["name"], page) for m in PART.finditer(text)})
        for page, text in texts.items()
    }


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as the usual viewers make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


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
