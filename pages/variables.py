"""The environment variables, in the pages about tasks and docs/contributing.md."""

from __future__ import annotations

from collections.abc import Mapping

from railhead.variables import INSIDE, OF_RUNS, OF_TESTS, OF_YOU

from .marked import table


def of_tasks() -> dict[str, str]:
    """The generated parts of the pages about tasks."""
    return {"variables": _table(OF_YOU), "variables-of-ranks": _table(OF_RUNS)}


def of_tests() -> dict[str, str]:
    """The generated parts of docs/contributing.md."""
    return {"variables-of-tests": _table({**INSIDE, **OF_TESTS})}


def _table(variables: Mapping[str, str]) -> str:
    rows = [(f"`{name}`", meaning) for name, meaning in variables.items()]
    return table(("variable", "meaning"), rows)
