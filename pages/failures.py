"""docs/troubleshooting.md: the causes of failed runs."""

from __future__ import annotations

from bootstrap.host.causes.causes import COMMANDS, MEANINGS

from .marked import table


def parts() -> dict[str, str]:
    """The generated parts of docs/troubleshooting.md."""
    return {"causes": causes()}


def causes() -> str:
    """The classes of causes, and the task that helps next."""
    rows = [(f"`{name}`", what, _next(name)) for name, what in MEANINGS.items()]
    return table(("class", "evidence", "next"), rows)


def _next(name: str) -> str:
    return f"`fab {COMMANDS.get(name, 'logs')}`"
