"""Lines that a program beside the supervisor adds to its log, which is its stdout."""

from __future__ import annotations

import contextlib
import time


def print_line(text: str) -> None:
    """Print a line with the time, UTC. Neither a full disk nor a character that the log cannot have
    is a reason to end."""
    with contextlib.suppress(OSError, ValueError):
        print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), text, flush=True)
