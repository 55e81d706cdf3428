"""How long a run may still take: until its --max-hours, or the machine's timer, which no attempt
resets."""

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
        from ..base import bounded  # imported late: the user's computer needs only SHOWN

        shown = SHOWN.search(bounded.run([tool, "show"], ANSWER).out)
        if shown and shown[4] == "active":
            limits.append(float(int(shown[1]) - int(shown[2])))
    return min(limits, default=None)


def too_late(remaining: float | None, start: float, interval: float) -> str:
    """Why the `remaining` seconds do not suffice for an attempt, which takes `start` seconds until
    its first step, and `interval` until its next checkpoint. "" if they do. Pure."""
    needed = start + interval
    if remaining is None or remaining >= needed:
        return ""
    steps = "a start and the next checkpoint"
    return f"{remaining:.0f} s are left of its time; {steps} take {needed:.0f} s"
