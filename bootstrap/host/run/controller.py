"""Tests whether a controller (`fab train`, `fab attach`) is connected. A file has the pids of the
controllers' agents, one per line.
"""

from __future__ import annotations

import contextlib
import os
import time

AGENT = b"'agent'"  # in the command line of each agent: session.py starts it with this


def is_connected(file: str) -> bool:
    """Whether an agent whose pid is in `file` still runs; touches the file if so."""
    with contextlib.suppress(OSError, ValueError), open(file) as pids:
        if any(_is_agent(int(pid)) for pid in pids):
            os.utime(file)
            return True
    return False


def _is_agent(pid: int) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as line:
        return AGENT in line.read()
    return False


def seconds_since_seen(file: str) -> float | None:
    """Seconds since a controller was last connected; None if there never was one."""
    try:
        return max(0.0, time.time() - os.stat(file).st_mtime)
    except OSError:
        return None
