"""Tests whether a controller (`fab train`, `fab attach`) is connected: a file has its agent's pid.

Standard library only, Python 3.10.
"""

from __future__ import annotations

import contextlib
import os
import time

AGENT = b"'agent'"  # in the command line of each agent: session.py starts it with this


def is_connected(file: str) -> bool:
    """Whether the agent whose pid is in `file` still runs; if so, touch the file."""
    with contextlib.suppress(OSError, ValueError), open(file) as pid:
        with open(f"/proc/{int(pid.read())}/cmdline", "rb") as line:
            connected = AGENT in line.read()
        if connected:
            os.utime(file)
        return connected
    return False


def seconds_since_seen(file: str) -> float | None:
    """Seconds since a controller was last connected; None if there never was one."""
    try:
        return max(0.0, time.time() - os.stat(file).st_mtime)
    except OSError:
        return None
