"""What the clouds sell that this project runs on: GPU machines, where they are, what they need.

Pure tables, as read in November 2026; docs/config.md shows them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """One type of machine. `gpus` cards of type `gpu` in it, of the architecture `arch`."""

    name: str
    vcpus: int
    gpu: str
    gpus: int
    arch: str
    placement: bool = True
    substitute: str | None = None  # what to take instead, where the cloud has retired it

    @property
    def retired(self) -> bool:
        """Whether the cloud no longer sells it to everyone."""
        return self.substitute is not None


V100, T4, A10G, L4 = "nvidia-v100", "nvidia-t4", "nvidia-a10g", "nvidia-l4"
ARCHES = {V100: "volta", T4: "turing", A10G: "ampere", L4: "ada"}

# name, vCPUs, GPU, GPUs, substitute
_AWS = (
    ("p3.2xlarge", 8, V100, 1, "g4dn.xlarge"),
    ("p3.8xlarge", 32, V100, 4, "g4dn.12xlarge"),
    ("p3.16xlarge", 64, V100, 8, "g5.48xlarge"),
    ("p3dn.24xlarge", 96, V100, 8, None),
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
)
AWS = {
    name: Machine(name, vcpus, gpu, gpus, ARCHES[gpu], substitute=substitute)
    for name, vcpus, gpu, gpus, substitute in _AWS
}

GCP_VCPUS = (1, 2, 4, 8, 16, 32, 64, 96)
GCP = {f"n1-standard-{vcpus}": vcpus for vcpus in GCP_VCPUS}
# Cards that n1 machines take, how many of them, and the most vCPUs beside that many.
GCP_CARDS = {
    "nvidia-tesla-t4": {1: 48, 2: 48, 4: 96},
    "nvidia-tesla-v100": {1: 12, 2: 24, 4: 48, 8: 96},
}
GCP_ARCHES = {"nvidia-tesla-t4": "turing", "nvidia-tesla-v100": "volta"}

AWS_REGIONS = [
    "us-east-1",
    "us-east-2",
    "us-west-1",
    "us-west-2",
    "ca-central-1",
    "sa-east-1",
    "eu-north-1",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "eu-central-1",
    "eu-south-1",
    "eu-south-2",
    "ap-south-1",
    "ap-south-2",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-southeast-3",
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-northeast-3",
    "ap-east-1",
    "me-central-1",
    "me-south-1",
    "il-central-1",
    "af-south-1",
]

# The zones of GCP with T4 cards, by region: letters.
T4_ZONES = {
    "us-central1": "abcf", "us-east1": "cd", "us-east4": "abc", "us-west1": "ab",
    "us-west2": "bc", "us-west3": "b", "us-west4": "ab", "northamerica-northeast1": "c",
    "southamerica-east1": "ac", "europe-west1": "bcd", "europe-west2": "ab", "europe-west3": "b",
    "europe-west4": "abc", "europe-central2": "bc", "me-west1": "bc", "asia-east1": "ac",
    "asia-east2": "ac", "asia-northeast1": "ac", "asia-northeast3": "bc", "asia-south1": "ab",
    "asia-southeast1": "abc", "asia-southeast2": "ab", "australia-southeast1": "ac",
}  # fmt: skip

_REGION = re.compile(r"[a-z]+-[a-z]+\d+")


def gcp_machine(name: str, card: str, count: int) -> Machine:
    """An n1 machine with cards in it. KeyError for a name or card that is in no table."""
    return Machine(name, GCP[name], card, count, GCP_ARCHES[card], placement=False)


def zones_with(card: str, region: str) -> tuple[str, ...]:
    """The zones of a region that are known to have the card; empty where nothing is known."""
    letters = T4_ZONES.get(region, "") if card == "nvidia-tesla-t4" else ""
    return tuple(f"{region}-{letter}" for letter in letters)


def is_gcp_region(text: str) -> bool:
    """Whether the text has the shape of a region of GCP."""
    return _REGION.fullmatch(text) is not None
