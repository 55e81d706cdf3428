"""The machine types of EC2 with their prices, and their quotas. Pure; docs/config.md shows them.

A new machine type is one row of `_ROWS` and one row of docs/config.md.
"""

from __future__ import annotations

from stacks.machine_types import A10G, L4, T4, V100, MachineType, PriceList
from stacks.quotas import QuotaNeed

PRICES = PriceList("us-east-1", "2026-07-20", "AWS price list for us-east-1, on demand")

# name, vCPUs, GPU type, GPUs, US dollars per hour, substitute where AWS has retired the type
_ROWS: tuple[tuple[str, int, str, int, float, str | None], ...] = (
    ("p3.2xlarge", 8, V100, 1, 3.06, "g4dn.xlarge"),
    ("p3.8xlarge", 32, V100, 4, 12.24, "g4dn.12xlarge"),
    ("p3.16xlarge", 64, V100, 8, 24.48, "g5.48xlarge"),
    ("p3dn.24xlarge", 96, V100, 8, 31.212, None),
    ("g4dn.xlarge", 4, T4, 1, 0.526, None),
    ("g4dn.2xlarge", 8, T4, 1, 0.752, None),
    ("g4dn.4xlarge", 16, T4, 1, 1.204, None),
    ("g4dn.8xlarge", 32, T4, 1, 2.176, None),
    ("g4dn.12xlarge", 48, T4, 4, 3.912, None),
    ("g4dn.16xlarge", 64, T4, 1, 4.352, None),
    ("g4dn.metal", 96, T4, 8, 7.824, None),
    ("g5.xlarge", 4, A10G, 1, 1.006, None),
    ("g5.2xlarge", 8, A10G, 1, 1.212, None),
    ("g5.4xlarge", 16, A10G, 1, 1.624, None),
    ("g5.8xlarge", 32, A10G, 1, 2.448, None),
    ("g5.12xlarge", 48, A10G, 4, 5.672, None),
    ("g5.16xlarge", 64, A10G, 1, 4.096, None),
    ("g5.24xlarge", 96, A10G, 4, 8.144, None),
    ("g5.48xlarge", 192, A10G, 8, 16.288, None),
    ("g6.xlarge", 4, L4, 1, 0.8048, None),
    ("g6.2xlarge", 8, L4, 1, 0.9776, None),
    ("g6.4xlarge", 16, L4, 1, 1.3232, None),
    ("g6.8xlarge", 32, L4, 1, 2.0144, None),
    ("g6.12xlarge", 48, L4, 4, 4.6016, None),
    ("g6.16xlarge", 64, L4, 1, 3.3968, None),
    ("g6.24xlarge", 96, L4, 4, 6.6752, None),
    ("g6.48xlarge", 192, L4, 8, 13.3504, None),
)
TYPES = {row[0]: MachineType(*row) for row in _ROWS}

# (family, spot) -> code and name in AWS's Service Quotas, service "ec2".
_QUOTAS = {
    ("p", False): ("L-417A185B", "Running On-Demand P instances"),
    ("p", True): ("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests"),
    ("g", False): ("L-DB2E81BA", "Running On-Demand G and VT instances"),
    ("g", True): ("L-3819A6DF", "All G and VT Spot Instance Requests"),
}


def machine_type(name: str, _gpu_type: str | None, _gpu_count: int | None) -> MachineType:
    """The machine type of this name; it decides its GPUs. KeyError for an unknown name."""
    return TYPES[name]


def same_gpus(name: str) -> list[str]:
    """The other types with the same number of the same GPU that AWS offers to every account."""
    own = TYPES[name]
    same = (m for m in TYPES.values() if (m.gpu, m.gpus) == (own.gpu, own.gpus))
    return [m.name for m in same if m is not own and not m.retired]


def quota_needs(
    machine: MachineType, count: int, region: str, *, spot: bool
) -> tuple[QuotaNeed, ...]:
    """EC2 counts vCPUs, on demand and spot apart."""
    code, name = _QUOTAS[machine.name[0], spot]
    return (QuotaNeed("ec2", code, name, machine.vcpus * count, "vCPU", region),)
