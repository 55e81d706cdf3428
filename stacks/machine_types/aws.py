"""The machine types of EC2 and their quotas. Pure; docs/config.md shows them.

A new machine type is a row of railhead/documents/machine_types.py, and one of
railhead/money/prices/aws.csv.
"""

from __future__ import annotations

from dataclasses import dataclass

from railhead.documents.machine_types import AWS

from ..quotas import QuotaNeed
from .types import MachineType

TYPES = {
    name: MachineType(name, vcpus, gpu, gpus, substitute)
    for name, vcpus, gpu, gpus, substitute in AWS
}


@dataclass(frozen=True)
class VcpuQuota:
    """A quota in AWS's Service Quotas, service "ec2". It counts the running machines whose type
    begins with one of `types` and with none of `others`, which have separate quotas."""

    code: str
    name: str
    spot: bool
    types: tuple[str, ...]
    others: tuple[str, ...] = ()

    def counts(self, machine_type: str) -> bool:
        """Whether a machine of this type counts."""
        return machine_type.startswith(self.types) and not machine_type.startswith(self.others)


_GPU_P, _GPU_G = ("p2", "p3", "p4", "p5", "p6"), ("g", "vt")
_STANDARD = ("a", "c", "d", "h", "i", "m", "r", "t", "z")
_OTHERS = ("dl", "inf", "trn", "hpc")
_LETTERS = "Standard (A, C, D, H, I, M, R, T, Z)"
QUOTAS = (
    VcpuQuota("L-417A185B", "Running On-Demand P instances", False, _GPU_P),
    VcpuQuota("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests", True, ("p2", "p3", "p4")),
    VcpuQuota("L-C4BD4855", "All P5 Spot Instance Requests", True, ("p5",)),
    VcpuQuota("L-DB2E81BA", "Running On-Demand G and VT instances", False, _GPU_G),
    VcpuQuota("L-3819A6DF", "All G and VT Spot Instance Requests", True, _GPU_G),
    VcpuQuota("L-1216C47A", f"Running On-Demand {_LETTERS} instances", False, _STANDARD, _OTHERS),
    VcpuQuota("L-34B43A08", f"All {_LETTERS} Spot Instance Requests", True, _STANDARD, _OTHERS),
)


def machine_type(name: str, _gpu_type: str | None, _gpu_count: int | None) -> MachineType:
    """The machine type of this name; it decides its GPUs. KeyError for an unknown name."""
    return TYPES[name]


def same_gpus(name: str) -> list[str]:
    """The other types with the same number of the same GPU, or without GPUs and with as many
    vCPUs, that AWS offers to every account."""
    machine = TYPES[name]
    others = [m for m in TYPES.values() if m is not machine and not m.retired]
    same = [m for m in others if (m.gpu, m.gpus) == (machine.gpu, machine.gpus)]
    return [m.name for m in same if machine.gpu or m.vcpus == machine.vcpus]


def quota_of(name: str, *, spot: bool) -> VcpuQuota:
    """The quota that counts machines of this type."""
    return next(quota for quota in QUOTAS if quota.spot == spot and quota.counts(name))


def quota_needs(
    machine: MachineType, count: int, region: str, *, spot: bool, disk_gb: int
) -> tuple[QuotaNeed, ...]:
    """EC2 counts vCPUs, on-demand and spot ones separately."""
    quota = quota_of(machine.name, spot=spot)
    return (QuotaNeed("ec2", quota.code, quota.name, machine.vcpus * count, "vCPU", region),)
