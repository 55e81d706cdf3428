"""A wait of a test for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable

MOST = 60.0  # seconds; on a machine with other work


def wait_until(true: Callable[[], object], seconds: float = MOST) -> None:
    """Wait until it is true; an AssertionError after so many seconds."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"it is not so after {seconds:g} s"
        time.sleep(0.02)
