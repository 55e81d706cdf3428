"""How long a run may still take: its --max-hours, and the timer of the machine, which no attempt
moves."""

from __future__ import annotations

import os
import re

from railhead.documents.runs.run import RunDocument

TOOL = "/usr/local/sbin/railhead-deadline"  # on machines of a cloud
SHOWN = re.compile(r"stops=(\d{1,10}) now=(\d{1,10}) late=(yes|no) timer=([a-z-]{1,20})")
ANSWER = 5.0  # seconds


def seconds_left(run: RunDocument, seconds: float, tool: str = TOOL) -> float | None:
    """Seconds until the run is cancelled or this machine powers itself off, after `seconds` of the
    run; None without a limit."""
    limits = [] if run.max_hours is None else [run.max_hours * 3600 - seconds]
    if os.path.exists(tool):
        from ..base import bounded  # imported late: the computer of the user reads SHOWN alone

        try:
            shown = SHOWN.search(bounded.run([tool, "show"], ANSWER).out)
        except OSError:
            shown = None
        if shown and shown[4] == "active":
            limits.append(float(int(shown[1]) - int(shown[2])))
    return min(limits, default=None)


def too_late(remaining: float | None, start: float, interval: float) -> str:
    """Why no attempt begins in the `remaining` seconds: it takes `start` seconds to its first step,
    and `interval` to its next checkpoint. "" if there is time. Pure."""
    needed = start + interval
    if remaining is None or remaining >= needed:
        return ""
    steps = "a start and the next checkpoint"
    return f"{remaining:.0f} s are left of its time; {steps} take {needed:.0f} s"
