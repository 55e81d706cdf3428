"""Checks that are the same on all clouds. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime

from railhead.documents.doctor import Check

from ..console.text import count
from ..errors import Command, Hint

WARNS_SECONDS, BLOCKS_SECONDS = 30, 240  # AWS refuses requests that are 5 minutes old
SHOWN = 12  # names of rights in one line
ADMINISTRATOR = Hint(Command("doctor", policy=True), "   # gives the document for an administrator")


def clock_check(header: str | None, now: datetime) -> Check:
    """This computer's clock, compared with the `Date` of a response of the cloud."""
    try:
        cloud = parsedate_to_datetime(header or "")
        seconds = (now - cloud).total_seconds()
    except (TypeError, ValueError):
        return Check("clock", "unknown", "the cloud sent no time")
    off = abs(seconds)
    state = "blocks" if off > BLOCKS_SECONDS else "warns" if off > WARNS_SECONDS else "ok"
    direction = "ahead of" if seconds > 0 else "behind"
    text = f"{off:.0f} s {direction} the cloud's" if off >= 1 else "the cloud's"
    return Check("clock", state, text, "" if state == "ok" else "sudo timedatectl set-ntp true")


def rights_check(missing: Sequence[str], total: int, *, exists: bool = False) -> Check:
    """Whether the user has the rights that a stack needs. A change of an existing stack may need
    fewer."""
    if not missing:
        return Check("rights", "ok", f"all {total} are there")
    names = sorted(set(missing))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    text = f"{count(len(names), 'right')} of {total} missing: {', '.join(names[:SHOWN])}{more}"
    return Check("rights", "warns" if exists else "blocks", text, str(ADMINISTRATOR))


def quota_check(name: str, limit: float, used: float, need: float, next_command: str) -> Check:
    """Whether a quota has room for what a stack needs, in addition to what is in use."""
    text = f"have {limit:g}, used {used:g}, need {need:g}"
    fits = used + need <= limit
    return Check(name, "ok" if fits else "blocks", text, "" if fits else next_command)
