"""How long a run has made no progress, and after how long that is suspicious. Pure.

A step is evidence of progress: a record of the training, a value of --metric, a batch of Keras, a
line with a loss or a progress bar. Until a run has shown one, every line that a rank prints counts,
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
LONGEST = 2  # times the longest time without one so far: an evaluation, a checkpoint
FIRST = 15  # times the shortest limit, before the first step
REMEMBERED = 200  # intervals between two steps
AT_MOST = 1.0  # seconds that one look counts: the supervisor itself may have been stopped


class Progress:
    """The times of a run's steps. Its clock counts the seconds in which somebody has looked at it,
    so that a supervisor that was suspended does not take its own absence for a stall."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.looked: float | None = None
        self.stepped: float | None = None
        self.printed = 0.0
        self.longest = 0.0
        self.by_rank: dict[int, float] = {}
        self.intervals: deque[float] = deque(maxlen=REMEMBERED)
        self.lock = threading.Lock()  # one thread reads the output of the ranks, another one looks

    def look(self, now: float) -> None:
        """Move the clock; `now` is monotonic."""
        if self.looked is not None:
            self.clock += min(now - self.looked, AT_MOST)
        self.looked = now

    def step(self, ranks: Iterable[int]) -> None:
        """These ranks have completed a step."""
        with self.lock:
            for rank in ranks:
                if (before := self.by_rank.get(rank)) is not None:
                    self.intervals.append(self.clock - before)
                self.by_rank[rank] = self.clock
                if self.stepped is not None:
                    self.longest = max(self.longest, self.clock - self.stepped)
                self.stepped = self.clock

    def line(self) -> None:
        """A rank has printed something."""
        self.printed = self.clock

    @property
    def silence(self) -> float:
        """Seconds without progress."""
        return self.clock - (self.printed if self.stepped is None else self.stepped)

    def limit(self, shortest: float) -> float:
        """Seconds without progress that are suspicious; `shortest`: at least so many."""
        if self.stepped is None:
            return FIRST * shortest
        from statistics import median  # loaded only where it is needed, as it loads eight others

        with self.lock:
            usual = median(self.intervals) if self.intervals else 0.0
        return max(shortest, STEPS * usual, LONGEST * self.longest)
