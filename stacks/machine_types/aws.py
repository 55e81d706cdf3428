"""The machine types of EC2 and their quotas. Pure; docs/config.md shows them.

A new machine type is one row of `_ROWS`, of `railhead/money/prices/aws.csv` and of docs/config.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..quotas import QuotaNeed
from .types import A10G, A100, H100, L4, L40S, T4, V100, MachineType

# name, vCPUs, GPU type, GPUs, substitute where AWS has retired the type
_ROWS: tuple[tuple[str, int, str | None, int, str | None], ...] = (
    ("p3.2xlarge", 8, V100, 1, "g4dn.xlarge"),
    ("p3.8xlarge", 32, V100, 4, "g4dn.12xlarge"),
    ("p3.16xlarge", 64, V100, 8, "g5.48xlarge"),
    ("p3dn.24xlarge", 96, V100, 8, None),
    ("p4d.24xlarge", 96, A100, 8, None),
    ("p5.4xlarge", 16, H100, 1, None),
    ("p5.48xlarge", 192, H100, 8, None),
    ("g4dn.xlarge", 4, T4, 1, None),
    ("g4dn.2xlarge", 8, T4, 1, None),
    ("g4dn.4xlarge", 16, T4, 1, None),
    ("g4dn.8xlarge", 32, T4, 1, None),
    ("g4dn.12xlarge", 48, T4, 4, None),
    ("g4dn.16xlarge", 64, T4, 1, None),
    ("g4dn.metal", 96, T4, 8, None),
    ("g5.xlarge", 4, A10G, 1, None),
    ("g5.2xlarge", 8, A10G, 1, None),
    ("g5.4xlarge", 16, A10G, 1, None),
    ("g5.8xlarge", 32, A10G, 1, None),
    ("g5.12xlarge", 48, A10G, 4, None),
    ("g5.16xlarge", 64, A10G, 1, None),
    ("g5.24xlarge", 96, A10G, 4, None),
    ("g5.48xlarge", 192, A10G, 8, None),
    ("g6.xlarge", 4, L4, 1, None),
    ("g6.2xlarge", 8, L4, 1, None),
    ("g6.4xlarge", 16, L4, 1, None),
    ("g6.8xlarge", 32, L4, 1, None),
    ("g6.12xlarge", 48, L4, 4, None),
    ("g6.16xlarge", 64, L4, 1, None),
    ("g6.24xlarge", 96, L4, 4, None),
    ("g6.48xlarge", 192, L4, 8, None),
    ("g6e.xlarge", 4, L40S, 1, None),
    ("g6e.2xlarge", 8, L40S, 1, None),
    ("g6e.4xlarge", 16, L40S, 1, None),
    ("g6e.8xlarge", 32, L40S, 1, None),
    ("g6e.12xlarge", 48, L40S, 4, None),
    ("g6e.16xlarge", 64, L40S, 1, None),
    ("g6e.24xlarge", 96, L40S, 4, None),
    ("g6e.48xlarge", 192, L40S, 8, None),
    ("c7i.xlarge", 4, None, 0, None),
    ("c7i.2xlarge", 8, None, 0, None),
    ("c7i.4xlarge", 16, None, 0, None),
    ("c7i.8xlarge", 32, None, 0, None),
    ("c7i.12xlarge", 48, None, 0, None),
    ("c7i.16xlarge", 64, None, 0, None),
    ("c7i.24xlarge", 96, None, 0, None),
    ("m7i.large", 2, None, 0, None),
    ("m7i.xlarge", 4, None, 0, None),
    ("m7i.2xlarge", 8, None, 0, None),
    ("m7i.4xlarge", 16, None, 0, None),
    ("m7i.8xlarge", 32, None, 0, None),
    ("m7i.12xlarge", 48, None, 0, None),
    ("m7i.16xlarge", 64, None, 0, None),
    ("m7i.24xlarge", 96, None, 0, None),
)
TYPES = {
    name: MachineType(name, vcpus, gpu, gpus, substitute)
    for name, vcpus, gpu, gpus, substitute in _ROWS
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
    own = TYPES[name]
    others = [m for m in TYPES.values() if m is not own and not m.retired]
    same = [m for m in others if (m.gpu, m.gpus) == (own.gpu, own.gpus)]
    return [m.name for m in same if own.gpu or m.vcpus == own.vcpus]


def quota_of(name: str, *, spot: bool) -> VcpuQuota:
    """The quota that counts machines of this type."""
    return next(quota for quota in QUOTAS if quota.spot == spot and quota.counts(name))


def quota_needs(
    machine: MachineType, count: int, region: str, *, spot: bool, disk_gb: int
) -> tuple[QuotaNeed, ...]:
    """EC2 counts vCPUs, on demand and spot apart."""
    quota = quota_of(machine.name, spot=spot)
    return (QuotaNeed("ec2", quota.code, quota.name, machine.vcpus * count, "vCPU", region),)
