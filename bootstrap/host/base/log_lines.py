"""Prints log lines of programs beside the supervisor; their stdout is their log."""

from __future__ import annotations

import contextlib
import time


def print_line(text: str) -> None:
    """Print a line with the time, UTC. A full disk, or a character that cannot be encoded, raises
    no error."""
    with contextlib.suppress(OSError, ValueError):
        print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), text, flush=True)
