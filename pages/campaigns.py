"""docs/reliability.md: the campaigns."""

from __future__ import annotations

from importlib import import_module

from .marked import table

CAMPAIGNS = import_module("tests.campaign").CAMPAIGNS  # for mypy it is the module `campaign`


def parts() -> dict[str, str]:
    """The generated parts of docs/reliability.md."""
    rows = [(f"`make campaign-{name}`", one.seed) for name, one in CAMPAIGNS.items()]
    return {"campaigns": table(("campaign", "what a seed is"), rows)}
