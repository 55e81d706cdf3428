"""How long a run has made no progress, and when that is suspicious. Pure.

A step is evidence of progress: a record of the training, a value of --metric, a batch of Keras, a
line with a loss or a progress bar. Until the first step, every line of a rank counts as progress,
and the limit is much longer: the first step loads data, traces and compiles.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterable

# What a script prints after its first step: a progress bar of Keras, or a loss.
STEP = re.compile(
    rb"\d/\d+\S{0,8} +(?:\[[=>.]|\x1b|\xe2\x94\x81|- \d)|\bloss\b\W{1,5}\d", re.IGNORECASE
)
STEP_RECORDS = ("progress", "epoch", "evaluation", "checkpoint", "metric")
STEPS = 10  # median steps without a step
LONGEST = 2  # times the longest time without a step so far: an evaluation, a checkpoint
FIRST = 15  # times the shortest limit, before the first step
REMEMBERED = 200  # intervals between two steps
AT_MOST = 1.0  # seconds that one look counts at most: the supervisor may have been stopped


class Progress:
    """The times of a run's steps. Its clock advances only by looks, so that a suspended supervisor
    does not take its own absence for a stall."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.looked: float | None = None
        self.stepped: float | None = None
        self.printed = 0.0
        self.longest = 0.0
        self.by_rank: dict[int, float] = {}
        self.intervals: deque[float] = deque(maxlen=REMEMBERED)
        self.lock = threading.Lock()  # one thread reads the ranks' output, another one looks

    def look(self, now: float) -> None:
        """Advance the clock; `now` is monotonic."""
        if self.looked is not None:
            self.clock += min(now - self.looked, AT_MOST)
        self.looked = now

    def step(self, ranks: Iterable[int]) -> None:
        """Note that these ranks have completed a step."""
        with self.lock:
            for rank in ranks:
                if (before := self.by_rank.get(rank)) is not None:
                    self.intervals.append(self.clock - before)
                self.by_rank[rank] = self.clock
                if self.stepped is not None:
                    self.longest = max(self.longest, self.clock - self.stepped)
                self.stepped = self.clock

    def line(self) -> None:
        """Note that a rank has printed something."""
        self.printed = self.clock

    @property
    def silence(self) -> float:
        """Seconds without progress."""
        return self.clock - (self.printed if self.stepped is None else self.stepped)

    def limit(self, shortest: float) -> float:
        """Seconds without progress that are suspicious, at least `shortest`."""
        if self.stepped is None:
            return FIRST * shortest
        from statistics import median  # loaded on use: it loads eight other modules

        with self.lock:
            usual = median(self.intervals) if self.intervals else 0.0
        return max(shortest, STEPS * usual, LONGEST * self.longest)
