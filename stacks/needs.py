"""The quotas that a stack uses, each in the cloud's own unit. Pure.

The clouds count on-demand and spot apart, and AWS counts vCPUs where GCP counts cards.
"""

from __future__ import annotations

from dataclasses import dataclass

from stacks.settings import ClusterConfig

# (family, spot) -> code and name in AWS's Service Quotas, service "ec2".
AWS_CODES = {
    ("p", False): ("L-417A185B", "Running On-Demand P instances"),
    ("p", True): ("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests"),
    ("g", False): ("L-DB2E81BA", "Running On-Demand G and VT instances"),
    ("g", True): ("L-3819A6DF", "All G and VT Spot Instance Requests"),
}
GCP_CARDS = {"nvidia-tesla-t4": "NVIDIA-T4-GPUS", "nvidia-tesla-v100": "NVIDIA-V100-GPUS"}
EVERYWHERE = "global"


@dataclass(frozen=True)
class Need:
    """`amount` `unit`s of one quota; `place` is a region, or "global"."""

    service: str
    code: str
    name: str
    amount: int
    unit: str
    place: str


def needs(config: ClusterConfig) -> tuple[Need, ...]:
    """What this stack needs when all its machines run; empty for local hosts."""
    if config.cloud == "aws":
        return _aws(config)
    return _gcp(config) if config.cloud == "gcp" else ()


def _aws(config: ClusterConfig) -> tuple[Need, ...]:
    machine, region = config.machine, config.region
    assert machine and region
    code, name = AWS_CODES[machine.name[0], config.spot]
    return (Need("ec2", code, name, machine.vcpus * config.count, "vCPU", region),)


def _gcp(config: ClusterConfig) -> tuple[Need, ...]:
    machine, region = config.machine, config.region
    assert machine and region
    code = f"{GCP_CARDS[machine.gpu]}-per-project-region"
    cards = machine.gpus * config.count
    code = f"PREEMPTIBLE-{code}" if config.spot else code
    everywhere = "GPUS-ALL-REGIONS-per-project"
    service = "compute.googleapis.com"
    return (
        Need(service, everywhere, "GPUs in all regions", cards, "GPU", EVERYWHERE),
        Need(service, code, f"{machine.gpu} in {region}", cards, "GPU", region),
    )


def verdict(need: Need, have: float | None) -> str:
    """One line for the preview: have and need."""
    known = "unknown (no right to read it)" if have is None else f"{have:g}"
    what = f"quota {need.name} ({need.code}, {need.place})"
    return f"{what}: have {known}, need {need.amount} {need.unit}"
