"""Whether a controller is connected that watches this run: its agent's pid lies in a file.

Standard library only, Python 3.10.
"""

from __future__ import annotations

import contextlib
import os
import time

AGENT = b"'agent'"  # a word of the command line by which session.py starts an agent


def is_here(file: str) -> bool:
    """Whether the agent whose pid stands in `file` still lives; the file then gets the time."""
    with contextlib.suppress(OSError, ValueError), open(file) as pid:
        with open(f"/proc/{int(pid.read())}/cmdline", "rb") as line:
            here = AGENT in line.read()
        if here:
            os.utime(file)
        return here
    return False


def seconds_ago(file: str) -> float | None:
    """How long ago a controller was seen last; None when there never was one."""
    try:
        return max(0.0, time.time() - os.stat(file).st_mtime)
    except OSError:
        return None
