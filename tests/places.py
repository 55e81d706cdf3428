"""Where the files that tests read lie."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
CASES = TESTS / "cases"  # recorded outputs and documents


def parsed(path: Path) -> ast.Module:
    """The tree of a Python file."""
    return tree_of(path.read_text(encoding="utf-8"))


def tree_of(text: str) -> ast.Module:
    """The tree of a Python program. Python 3.11 counts the depth of all trees in one place: it
    raises SystemError if garbage collection or another thread parses something meanwhile."""
    try:
        return ast.parse(text)
    except SystemError:
        return ast.parse(text)
