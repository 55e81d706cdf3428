"""The machine types of Compute Engine, their GPUs, zones and quotas. Pure.

Read in 2026; docs/config.md shows them. A new machine type with built-in GPUs is a row of
railhead/documents/machine_types.py, one without GPUs a row here; each has its price in
railhead/money/prices/gcp.csv.
"""

from __future__ import annotations

from railhead.documents.machine_types import A100, A100_80, GOOGLE, L4

from ..quotas import EVERYWHERE, QuotaNeed
from .types import MachineType

SERVICE = "compute.googleapis.com"

# GPUs are attached to these.
N1 = {f"n1-standard-{vcpus}": vcpus for vcpus in (1, 2, 4, 8, 16, 32, 64, 96)}
WITH_GPUS = GOOGLE  # their vCPUs, GPU type, GPUs
WITHOUT_GPUS = {
    **{f"e2-standard-{vcpus}": vcpus for vcpus in (2, 4, 8, 16, 32)},
    **{f"n2-standard-{vcpus}": vcpus for vcpus in (2, 4, 8, 16, 32, 48, 64, 80, 96, 128)},
}
NAMES = (*N1, *WITH_GPUS, *WITHOUT_GPUS)
# For each GPU type: how many an n1 machine takes, and the most vCPUs that go with that many.
GPU_LIMITS = {
    "nvidia-tesla-t4": {1: 48, 2: 48, 4: 96},
    "nvidia-tesla-v100": {1: 12, 2: 24, 4: 48, 8: 96},
}
# Our name of a GPU type, and Google's name of its quota.
_QUOTAS = {
    "nvidia-tesla-t4": "NVIDIA-T4-GPUS",
    "nvidia-tesla-v100": "NVIDIA-V100-GPUS",
    L4: "NVIDIA-L4-GPUS",
    A100: "NVIDIA-A100-GPUS",
    A100_80: "NVIDIA-A100-80GB-GPUS",  # a separate quota
}
# The quota of a family's vCPUs in a region. g2 is missing: which quota counts it is unknown.
_CPU_QUOTAS = {"n1": "CPUS", "e2": "CPUS", "n2": "N2-CPUS", "a2": "A2-CPUS"}

# For each GPU type its regions, and the letters of the zones that have it. Only for a preview
# without Compute's own list, which takes precedence.
ZONES = {
    "nvidia-tesla-t4": {
        "us-central1": "abcf", "us-east1": "cd", "us-east4": "abc", "us-west1": "ab",
        "us-west2": "bc", "us-west3": "b", "us-west4": "ab", "northamerica-northeast1": "c",
        "southamerica-east1": "ac", "europe-west1": "bcd", "europe-west2": "ab",
        "europe-west3": "b", "europe-west4": "abc", "europe-central2": "bc", "me-west1": "bc",
        "asia-east1": "ac", "asia-east2": "ac", "asia-northeast1": "ac", "asia-northeast3": "bc",
        "asia-south1": "ab", "asia-southeast1": "abc", "asia-southeast2": "ab",
        "australia-southeast1": "ac",
    },
    A100: {
        "us-central1": "abcf", "us-east1": "b", "us-west1": "b", "us-west3": "b", "us-west4": "b",
        "europe-west4": "ab", "me-west1": "ac", "asia-northeast1": "ac", "asia-northeast3": "ab",
        "asia-southeast1": "bc",
    },
    A100_80: {
        "us-central1": "ac", "us-east4": "c", "us-east5": "ab", "europe-west4": "a",
        "asia-southeast1": "c",
    },
}  # fmt: skip


def machine_type(name: str, gpu_type: str | None, gpu_count: int | None) -> MachineType:
    """The machine type of this name; n1 with GPUs attached. KeyError for an unknown name."""
    if name in WITH_GPUS:
        return MachineType(name, *WITH_GPUS[name])
    vcpus = (N1 | WITHOUT_GPUS)[name]
    if name in WITHOUT_GPUS:
        return MachineType(name, vcpus)
    assert gpu_type and gpu_count
    return MachineType(name, vcpus, gpu_type, gpu_count)


def has_local_ssds(name: str) -> bool:
    """Whether every machine of this type has local SSDs, whose content is lost when it stops."""
    return name.startswith("a2-ultragpu-")


def only_migrates(name: str, *, spot: bool) -> bool:
    """Whether Compute moves machines of this type to another host for maintenance, and refuses to
    stop them for it. Source: the VM host options of Compute Engine."""
    return name.startswith("e2-") and not spot


def same_gpus(name: str) -> list[str]:
    """The other types with the same number of the same built-in GPU."""
    if name not in WITH_GPUS:
        return []
    gpus = {other: (gpu, count) for other, (_, gpu, count, *_) in WITH_GPUS.items()}
    return [other for other in gpus if gpus[other] == gpus[name] and other != name]


def zones_with(gpu: str | None, region: str) -> tuple[str, ...]:
    """The zones of a region that are known to have the GPU type; empty if none is known."""
    letters = ZONES.get(gpu or "", {}).get(region, "")
    return tuple(f"{region}-{letter}" for letter in letters)


def quota_needs(
    machine: MachineType, count: int, region: str, *, spot: bool, disk_gb: int
) -> tuple[QuotaNeed, ...]:
    """What Compute counts: GPUs, on-demand and spot ones separately, of all regions and of a type
    in a region; vCPUs, which spot machines share with others; addresses in use; and disks."""
    gpus, vcpus = machine.gpus * count, machine.vcpus * count
    needs = []
    if machine.gpu:
        start = "PREEMPTIBLE-" if spot else ""
        code = f"{start}{_QUOTAS[machine.gpu]}"
        needs = [
            _everywhere("GPUS-ALL-REGIONS", "GPUs in all regions", gpus, "GPU"),
            _here(code, f"{machine.gpu} in {region}", gpus, "GPU", region),
        ]
    needs.append(_everywhere("CPUS-ALL-REGIONS", "vCPUs in all regions", vcpus, "vCPU"))
    cpus = _CPU_QUOTAS.get(machine.name.partition("-")[0])
    if cpus and not spot:
        needs.append(_here(cpus, f"vCPUs in {region}", vcpus, "vCPU", region))
    addresses, disks = f"addresses in use in {region}", f"balanced and SSD disks in {region}"
    needs.append(_here("IN-USE-ADDRESSES", addresses, count, "address", region))
    needs.append(_here("SSD-TOTAL-GB", disks, disk_gb * count, "GB", region))
    return tuple(needs)


def _everywhere(code: str, name: str, amount: int, unit: str) -> QuotaNeed:
    return QuotaNeed(SERVICE, f"{code}-per-project", name, amount, unit, EVERYWHERE)


def _here(code: str, name: str, amount: int, unit: str, region: str) -> QuotaNeed:
    return QuotaNeed(SERVICE, f"{code}-per-project-region", name, amount, unit, region)
