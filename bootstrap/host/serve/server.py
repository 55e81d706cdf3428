"""Like serve.client, but for a server: it ends when its standard input closes."""

from __future__ import annotations

from typing import Any

from . import client, parent


def main(*words: str) -> Any:
    """Run the server until its standard input closes."""
    parent.end_with_parent()
    return client.main(*words)
