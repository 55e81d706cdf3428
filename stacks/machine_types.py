"""What is known of a machine type and of a price list. Each cloud's folder has its own table."""

from __future__ import annotations

from dataclasses import dataclass

V100, T4, A10G, L4 = "nvidia-v100", "nvidia-t4", "nvidia-a10g", "nvidia-l4"


@dataclass(frozen=True)
class MachineType:
    """One machine type: `vcpus`, and `gpus` GPUs of the type `gpu`.

    `usd_per_hour` is the price of one machine in the cloud's `PriceList`, None where unknown.
    `substitute` is the type to use instead where the cloud has retired this one.
    """

    name: str
    vcpus: int
    gpu: str
    gpus: int
    usd_per_hour: float | None = None
    substitute: str | None = None

    @property
    def retired(self) -> bool:
        """Whether the cloud no longer offers it to every account."""
        return self.substitute is not None


@dataclass(frozen=True)
class PriceList:
    """Where the prices of a cloud's machine types come from. On demand, Linux, one region."""

    region: str
    date: str
    source: str
