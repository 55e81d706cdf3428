"""The environment variables, in docs/tasks.md and docs/contributing.md."""

from __future__ import annotations

from railhead.documents.variables import INSIDE, RUN, TESTS, VARIABLES, YOU

from .marked import table


def of_tasks() -> dict[str, str]:
    """The generated parts of docs/tasks.md."""
    return {"variables": _table(YOU), "variables-of-ranks": _table(RUN)}


def of_tests() -> dict[str, str]:
    """The generated parts of docs/contributing.md."""
    return {"variables-of-tests": _table(TESTS, INSIDE)}


def _table(*who: str) -> str:
    rows = [(f"`{one.name}`", one.meaning) for one in VARIABLES if one.set_by in who]
    return table(("variable", "meaning"), rows)
