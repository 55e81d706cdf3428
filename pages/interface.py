"""docs/python.md: the errors."""

from __future__ import annotations

import inspect

from bootstrap.errors import BelowThreshold, RailheadError, RunFailed, UsageError

from .marked import table

ERRORS = (UsageError, RunFailed, BelowThreshold, RailheadError)


def parts() -> dict[str, str]:
    """The generated parts of docs/python.md."""
    rows = [(f"`{one.__name__}`", _when(one), one.code) for one in ERRORS]
    return {"errors": table(("error", "when", "exit code of `fab`"), rows)}


def _when(error: type[RailheadError]) -> str:
    return " ".join(inspect.cleandoc(error.__doc__ or "").split()).removesuffix(".")
