"""What is known about a machine type. Each cloud's folder has its own table."""

from __future__ import annotations

from dataclasses import dataclass

from railhead.documents.machine_types import A10G, A100, A100_80, H100, L4, L40S, T4, V100

# For each GPU type whether eight in one machine are linked by NVSwitches, which need NVIDIA's
# Fabric Manager. A machine type whose GPU is not here does not load.
NVSWITCH = {
    V100: False,
    T4: False,
    A10G: False,
    L4: False,
    L40S: False,
    A100: True,
    A100_80: True,
    H100: True,
    "nvidia-tesla-t4": False,  # Google's names
    "nvidia-tesla-v100": False,
}


@dataclass(frozen=True)
class MachineType:
    """One machine type: `vcpus`, and `gpus` GPUs of the type `gpu`; None and 0 without GPUs.
    `substitute` is the type to use instead if the cloud has retired this one."""

    name: str
    vcpus: int
    gpu: str | None = None
    gpus: int = 0
    substitute: str | None = None

    def __post_init__(self) -> None:
        if self.gpu is not None and self.gpu not in NVSWITCH:
            raise ValueError(
                f"{self.name}: {self.gpu} has no row in NVSWITCH of {__name__}: whether eight of "
                "them need Fabric Manager"
            )

    @property
    def retired(self) -> bool:
        """Whether the cloud no longer offers it to every account."""
        return self.substitute is not None

    @property
    def slots(self) -> int:
        """The ranks that it runs: one per GPU, or one without GPUs."""
        return self.gpus or 1

    @property
    def has_nvswitch(self) -> bool:
        """Whether a switch links its GPUs, which then need NVIDIA's Fabric Manager."""
        return self.gpus >= 8 and NVSWITCH[self.gpu or ""]
