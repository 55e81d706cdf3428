"""docs/reliability.md: the campaigns."""

from __future__ import annotations

from campaigns.__main__ import CAMPAIGNS

from .marked import table


def parts() -> dict[str, str]:
    """The generated parts of docs/reliability.md."""
    rows = [(f"`make campaign-{name}`", one.seed) for name, one in CAMPAIGNS.items()]
    return {"campaigns": table(("campaign", "what a seed is"), rows)}
