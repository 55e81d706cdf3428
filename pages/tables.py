"""Pages with one generated table: of reliability.md, security.md and troubleshooting.md."""

from __future__ import annotations

from bootstrap.host.causes.causes import COMMANDS, MEANINGS
from bootstrap.untrusted.crossings import CROSSINGS
from campaigns.__main__ import CAMPAIGNS

from .marked import table


def campaigns() -> dict[str, str]:
    """The campaigns."""
    rows = [(f"`make campaign-{name}`", campaign.seed) for name, campaign in CAMPAIGNS.items()]
    return {"campaigns": table(("campaign", "what a seed is"), rows)}


def crossings() -> dict[str, str]:
    """What comes to the user's computer from others."""
    rows = [(c.data, c.writer, c.opened_by, c.runs) for c in CROSSINGS]
    return {"crossings": table(("what", "written by", "opened here by", "may run here"), rows)}


def causes() -> dict[str, str]:
    """The classes of causes of failed runs, and the task that helps next."""
    rows = [
        (f"`{name}`", meaning, f"`fab {COMMANDS.get(name, 'logs')}`")
        for name, meaning in MEANINGS.items()
    ]
    return {"causes": table(("class", "evidence", "next"), rows)}
