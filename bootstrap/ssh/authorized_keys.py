"""A cluster's lines in a host's ~/.ssh/authorized_keys."""

from __future__ import annotations

from railhead.documents.agent.files import TextFile

from .session import Session

PATH = "~/.ssh/authorized_keys"


def authorize(session: Session, cluster: str, lines: list[str]) -> None:
    """Replace this cluster's lines in authorized_keys by `lines`; all other lines stay.

    A line belongs to a cluster when its comment is `railhead:CLUSTER`.
    """
    text = session.read(PATH) or ""
    others = [line for line in text.splitlines() if not line.endswith(f" railhead:{cluster}")]
    updated = "".join(f"{line}\n" for line in [*others, *lines])
    if updated != text:
        session.write(TextFile(PATH, updated, 0o600))
