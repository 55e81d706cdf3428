"""The n1 machine types of Compute Engine, their GPUs, zones and quotas. Pure.

Read in November 2026; docs/config.md shows them. There is no price list: the price depends on
the machine type, its GPUs and its region.
"""

from __future__ import annotations

from stacks.machine_types import MachineType
from stacks.quotas import EVERYWHERE, QuotaNeed

VCPUS = {f"n1-standard-{vcpus}": vcpus for vcpus in (1, 2, 4, 8, 16, 32, 64, 96)}
# For each GPU type: how many an n1 machine takes, and the most vCPUs that go with that many.
GPU_LIMITS = {
    "nvidia-tesla-t4": {1: 48, 2: 48, 4: 96},
    "nvidia-tesla-v100": {1: 12, 2: 24, 4: 48, 8: 96},
}
_QUOTAS = {"nvidia-tesla-t4": "NVIDIA-T4-GPUS", "nvidia-tesla-v100": "NVIDIA-V100-GPUS"}

# The zones with T4 GPUs: for each region the letters of its zones.
T4_ZONES = {
    "us-central1": "abcf", "us-east1": "cd", "us-east4": "abc", "us-west1": "ab",
    "us-west2": "bc", "us-west3": "b", "us-west4": "ab", "northamerica-northeast1": "c",
    "southamerica-east1": "ac", "europe-west1": "bcd", "europe-west2": "ab", "europe-west3": "b",
    "europe-west4": "abc", "europe-central2": "bc", "me-west1": "bc", "asia-east1": "ac",
    "asia-east2": "ac", "asia-northeast1": "ac", "asia-northeast3": "bc", "asia-south1": "ab",
    "asia-southeast1": "abc", "asia-southeast2": "ab", "australia-southeast1": "ac",
}  # fmt: skip


def machine_type(name: str, gpu_type: str | None, gpu_count: int | None) -> MachineType:
    """An n1 machine with GPUs attached. KeyError for an unknown name."""
    assert gpu_type and gpu_count
    return MachineType(name, VCPUS[name], gpu_type, gpu_count)


def zones_with(gpu_type: str, region: str) -> tuple[str, ...]:
    """The zones of a region that are known to have the GPU type; empty where none is known."""
    letters = T4_ZONES.get(region, "") if gpu_type == "nvidia-tesla-t4" else ""
    return tuple(f"{region}-{letter}" for letter in letters)


def quota_needs(
    machine: MachineType, count: int, region: str, *, spot: bool
) -> tuple[QuotaNeed, ...]:
    """Compute counts GPUs, on demand and spot apart: of all regions, and of a type in a region."""
    code = f"{_QUOTAS[machine.gpu]}-per-project-region"
    code = f"PREEMPTIBLE-{code}" if spot else code
    gpus = machine.gpus * count
    all_regions, service = "GPUS-ALL-REGIONS-per-project", "compute.googleapis.com"
    return (
        QuotaNeed(service, all_regions, "GPUs in all regions", gpus, "GPU", EVERYWHERE),
        QuotaNeed(service, code, f"{machine.gpu} in {region}", gpus, "GPU", region),
    )
