"""docs/python.md: the errors."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from bootstrap.errors import BelowThreshold, RailheadError, RunFailed, UsageError

from .marked import table

ERRORS = (UsageError, RunFailed, BelowThreshold, RailheadError)


def parts() -> dict[str, str]:
    """The generated parts of docs/python.md."""
    rows = [(f"`{error.__name__}`", _when(error), _codes(error)) for error in ERRORS]
    return {"errors": table(("error", "when", "exit code of `fab`"), rows)}


def _when(error: type[RailheadError]) -> str:
    return " ".join(inspect.cleandoc(error.__doc__ or "").split()).removesuffix(".")


def _codes(error: type[RailheadError]) -> str:
    """The exit codes of an error and of its kinds without a row."""
    return ", ".join(map(str, sorted({kind.code for kind in _kinds(error)})))


def _kinds(error: type[RailheadError]) -> Iterator[type[RailheadError]]:
    yield error
    for kind in error.__subclasses__():
        if kind not in ERRORS:
            yield from _kinds(kind)
