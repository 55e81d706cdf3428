"""Repeats calls to a cloud: for a time, not for a number of tries.

Clients count tries, and the time that these cover depends on the version: five tries of botocore
cover 31 s in 1.43.11 and 1.6 s in 1.44.8. So the clients' own retries are off.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

CALL = 60.0  # seconds of an outage that every call outlasts
LASTING = 600.0  # the same for calls on which machines or results depend
FIRST, LONGEST = 0.5, 10.0  # seconds between two tries
OVERLOADED = (408, 429, 500, 502, 503, 504)

REPORTED = 4  # tries, after which the user gets a line
Report = Callable[[str], None]

now, sleep = time.monotonic, time.sleep  # replaced in tests
_limit: ContextVar[tuple[float, Report | None]] = ContextVar("limit", default=(CALL, None))


@contextmanager
def outlasting(seconds: float = LASTING, report: Report | None = None) -> Iterator[None]:
    """Calls in this block outlast an outage of so many seconds; also a decorator. `report` gets a
    line when a call takes long."""
    token = _limit.set((seconds, report))
    try:
        yield
    finally:
        _limit.reset(token)


class Outage:
    """The failed tries of one call."""

    def __init__(self) -> None:
        self.tries = 0
        self.until = 0.0

    def lasts(self) -> bool:
        """Called after a failed try: wait before the next one; False: the time is over."""
        seconds, report = _limit.get()
        if not self.tries:
            self.until = now() + seconds
        remaining = self.until - now()
        if remaining <= 0:
            return False
        pause = min(FIRST * 2**self.tries, LONGEST) * random.uniform(0.5, 1)
        self.tries += 1
        if report and self.tries == REPORTED:
            report(f"the cloud does not answer; the call is repeated for {remaining:.0f} s")
        sleep(min(pause, remaining))
        return True
