"""The output of the probes of `fab health` (bootstrap/host/probes)."""

from __future__ import annotations

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass


@dataclass(frozen=True)
class Device:
    """A product of `width` x `width` matrices on a device: best time, and whether it is right."""

    name: str
    width: int
    seconds: float = key(above=0)
    right: bool = key()

    @property
    def speed(self) -> float:
        """Floating-point operations per second: 2 * width cubed, over the time."""
        return 2 * self.width**3 / self.seconds


@dataclass(frozen=True)
class Probed:
    """The GPUs that TensorFlow sees, and the speed of each device; no speeds if GPUs were only
    counted."""

    gpus: int
    devices: tuple[Device, ...]


@dataclass(frozen=True)
class LinkRates:
    """An all-reduce of `size` bytes over all ranks, and the bytes per second of each pair."""

    ranks: int
    size: int
    seconds: float = key(above=0)
    rates: tuple[float, ...] = key()
