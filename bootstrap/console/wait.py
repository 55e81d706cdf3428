"""Waiting for a condition, within a bound."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from railhead.documents.lazy import dataclass

T = TypeVar("T")


@dataclass(frozen=True)
class Clock:
    """The time in seconds, and how to wait; tests replace both."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def wait_until(
    check: Callable[[], T], *, seconds: float, every: float, clock: Clock | None = None
) -> T | None:
    """Call `check` until it returns a true value; returns it, or None when the time is over.

    Args:
        check: called at once, then every `every` seconds, and a last time when `seconds` have
            passed. Its exceptions end the wait.
        seconds: the bound. A check that is running then is not interrupted.
        every: seconds between two checks.
        clock: replaced in tests.
    """
    clock = clock or Clock()
    end = clock.now() + seconds
    while not (value := check()):
        remaining = end - clock.now()
        if remaining <= 0:
            return None
        clock.sleep(min(every, remaining))
    return value
