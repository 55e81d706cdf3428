"""How far something is: bytes of a transfer, steps of a training."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from dataclasses import field
from typing import TYPE_CHECKING

from railhead.documents.lazy import dataclass

from .text import bar, duration, percent, size

if TYPE_CHECKING:
    from railhead.documents.runs.records import Record

CELLS = 12  # of a bar
RECENT = 10.0  # seconds whose bytes are the rate of a transfer
LONGEST = 86_400  # seconds that may be left; else what moves are other bytes of the host


@dataclass(frozen=True)
class Done:
    """The fraction done, from 0 to 1, and the seconds that the rest takes; None: not known."""

    fraction: float | None = None
    seconds_left: float | None = None

    @property
    def plain(self) -> str:
        """` 25 %  12 s left`, without what is not known."""
        parts = []
        if self.fraction is not None:
            parts.append(f"{percent(min(max(self.fraction, 0.0), 1.0)):>5}")
        if self.seconds_left is not None:
            parts.append(f"{duration(self.seconds_left)} left")
        return "  ".join(parts)

    @property
    def bar(self) -> str:
        """`[###.........]  25 %  12 s left`, without what is not known. The time left is near the
        begin of a line: a narrow terminal cuts the end."""
        return self.plain if self.fraction is None else f"{bar(self.fraction, CELLS)} {self.plain}"


def training_done(record: Record) -> Done:
    """How far a training is, from its progress record."""
    fraction = None
    if record.step is not None and record.steps and math.isfinite(record.step / record.steps):
        fraction = record.step / record.steps
    return Done(fraction, record.figures.get("seconds_left"))


@dataclass
class Transfer:
    """The progress of a transfer of `total` bytes, at the rate of the last seconds: what stands
    still, or almost, has no time left. Thread-safe."""

    total: int
    bytes_done: int = 0
    started: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)
    seen: deque[tuple[float, int]] = field(default_factory=deque)  # when, and how many bytes

    def add(self, count: int) -> tuple[str, Done]:
        """Count bytes that have arrived; returns as `reach`."""
        with self.lock:
            return self._reached(self.bytes_done + count)

    def reach(self, bytes_done: int) -> tuple[str, Done]:
        """So many bytes have arrived; returns `120 MB of 1.2 GB, 45 MB/s`, and how far it is.
        All bytes are not the end, which may take its own time: no time is left then."""
        with self.lock:
            return self._reached(bytes_done)

    def _reached(self, bytes_done: int) -> tuple[str, Done]:
        self.bytes_done = bytes_done
        rate = self._rate()
        text = f"{size(bytes_done)} of {size(self.total)}, {size(rate)}/s"
        remaining = self.total - bytes_done
        seconds = remaining / rate if rate * LONGEST > remaining > 0 else None
        return text, Done(bytes_done / self.total if self.total else None, seconds)

    def _rate(self) -> float:
        """Bytes per second, of the last seconds."""
        now, seen = time.monotonic(), self.seen
        if not seen:
            seen.append((self.started, 0))
        seen.append((now, self.bytes_done))
        while seen[1][0] <= now - RECENT:
            seen.popleft()
        begun, before = seen[0]
        return max(0, self.bytes_done - before) / max(now - begun, 1e-3)
