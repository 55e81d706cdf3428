"""What comes to the user's computer from others, in docs/security.md."""

from __future__ import annotations

from bootstrap.untrusted.crossings import CROSSINGS

from .marked import table


def parts() -> dict[str, str]:
    """The generated parts of docs/security.md."""
    rows = [(one.what, one.writer, one.opened_by, one.runs) for one in CROSSINGS]
    return {"crossings": table(("what", "written by", "opened here by", "may run here"), rows)}
