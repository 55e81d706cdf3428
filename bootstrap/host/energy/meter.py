"""Adds up the energy that a host has used, from sample to sample. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from railhead.documents.lazy import dataclass


@dataclass(frozen=True)
class Sample:
    """One sample. `clock`: monotonic seconds; for each GPU its counter (mJ) and its power (mW),
    None if it has none; `busy` and `total`: the ticks of all CPUs since the boot."""

    clock: float
    counters: Sequence[int | None]
    powers: Sequence[int | None]
    busy: int
    total: int


class Meter:
    """The energy of a host since its first sample."""

    def __init__(self, first: Sample) -> None:
        self.first = self.last = first
        readings = zip(first.counters, first.powers, strict=True)
        self.gpus = [Gpu(first.clock, counter, power) for counter, power in readings]

    def add(self, sample: Sample) -> None:
        """Add the time since the previous sample."""
        self.last = sample
        for gpu, counter, power in zip(self.gpus, sample.counters, sample.powers, strict=True):
            gpu.add(sample.clock, counter, power)

    @property
    def seconds(self) -> float:
        """Seconds from the first sample to the last."""
        return self.last.clock - self.first.clock

    @property
    def load(self) -> float:
        """The part of the time in which the CPUs were busy."""
        total = self.last.total - self.first.total
        return min(1.0, max(0.0, (self.last.busy - self.first.busy) / total)) if total > 0 else 0.0

    @property
    def counted(self) -> float | None:
        """Joules of all GPUs by their counters; None if one has no counter."""
        return _sum([gpu.counted for gpu in self.gpus])

    @property
    def integral(self) -> float | None:
        """Joules of all GPUs by their power; None if the power of one is unknown."""
        return _sum([gpu.integral for gpu in self.gpus])


class Gpu:
    """Millijoules of one GPU: by its counter, which is ignored once it has restarted with the
    driver; and by its power, averaged over missing readings."""

    def __init__(self, clock: float, counter: int | None, power: int | None) -> None:
        self.clock, self.counter, self.power = clock, counter, power
        self.counted = None if counter is None else 0.0
        self.integral = None if power is None else 0.0

    def add(self, clock: float, counter: int | None, power: int | None) -> None:
        """Add the time until `clock`."""
        if counter is None or self.counter is None or counter < self.counter:
            self.counted = None
        elif self.counted is not None:
            self.counted += counter - self.counter
        self.counter = counter
        if power is not None and self.integral is not None and self.power is not None:
            self.integral += (power + self.power) / 2 * (clock - self.clock)
            self.clock, self.power = clock, power


def _sum(millijoules: Sequence[float | None]) -> float | None:
    known = [value for value in millijoules if value is not None]
    return sum(known) / 1000 if known and len(known) == len(millijoules) else None
