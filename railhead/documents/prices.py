"""The prices of machine types, from the price lists of the clouds. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from railhead.documents.lazy import dataclass


@dataclass(frozen=True)
class PriceList:
    """US dollars per hour in one region: on demand, Linux.

    Attributes:
        dates: when the prices of a family, as in g4dn or n1, were read; others at `date`.
        machines: the prices of machine types.
        per_vcpu: of the other families: the price of one vCPU with its memory.
        per_gpu: the price of one GPU that is attached to a machine.
    """

    region: str
    date: str
    source: str
    dates: Mapping[str, str]
    machines: Mapping[str, float]
    per_vcpu: Mapping[str, float] = field(default_factory=dict)
    per_gpu: Mapping[str, float] = field(default_factory=dict)

    def date_of(self, machine_type: str) -> str:
        """When the price of a machine type was read."""
        return self.dates.get(_family(machine_type), self.date)

    def usd_per_hour(
        self, machine_type: str, gpu_type: str | None = None, gpus: int = 0
    ) -> float | None:
        """The price of one machine with the GPUs that are attached to it; None if it is unknown."""
        if machine_type in self.machines:
            return self.machines[machine_type]
        vcpus, per_vcpu = machine_type.rpartition("-")[2], self.per_vcpu.get(_family(machine_type))
        per_gpu = self.per_gpu.get(gpu_type or "") if gpus else 0.0
        if per_vcpu is None or per_gpu is None or not vcpus.isdecimal():
            return None
        return round(int(vcpus) * per_vcpu + gpus * per_gpu, 5)


def _family(machine_type: str) -> str:
    return machine_type.replace("-", ".").partition(".")[0]


AWS = PriceList(
    "us-east-1",
    "2026-07-20",
    "AWS price list for us-east-1, on demand",
    dates=dict.fromkeys(("g6e", "c7i", "m7i"), "2026-02-09"),
    machines={
        "p3.2xlarge": 3.06,
        "p3.8xlarge": 12.24,
        "p3.16xlarge": 24.48,
        "p3dn.24xlarge": 31.212,
        "p4d.24xlarge": 21.957642,
        "p5.4xlarge": 6.88,
        "p5.48xlarge": 55.04,
        "g4dn.xlarge": 0.526,
        "g4dn.2xlarge": 0.752,
        "g4dn.4xlarge": 1.204,
        "g4dn.8xlarge": 2.176,
        "g4dn.12xlarge": 3.912,
        "g4dn.16xlarge": 4.352,
        "g4dn.metal": 7.824,
        "g5.xlarge": 1.006,
        "g5.2xlarge": 1.212,
        "g5.4xlarge": 1.624,
        "g5.8xlarge": 2.448,
        "g5.12xlarge": 5.672,
        "g5.16xlarge": 4.096,
        "g5.24xlarge": 8.144,
        "g5.48xlarge": 16.288,
        "g6.xlarge": 0.8048,
        "g6.2xlarge": 0.9776,
        "g6.4xlarge": 1.3232,
        "g6.8xlarge": 2.0144,
        "g6.12xlarge": 4.6016,
        "g6.16xlarge": 3.3968,
        "g6.24xlarge": 6.6752,
        "g6.48xlarge": 13.3504,
        "g6e.xlarge": 1.861,
        "g6e.2xlarge": 2.24208,
        "g6e.4xlarge": 3.00424,
        "g6e.8xlarge": 4.52856,
        "g6e.12xlarge": 10.49264,
        "g6e.16xlarge": 7.57719,
        "g6e.24xlarge": 15.06559,
        "g6e.48xlarge": 30.13118,
        "c7i.xlarge": 0.1785,
        "c7i.2xlarge": 0.357,
        "c7i.4xlarge": 0.714,
        "c7i.8xlarge": 1.428,
        "c7i.12xlarge": 2.142,
        "c7i.16xlarge": 2.856,
        "c7i.24xlarge": 4.284,
        "m7i.large": 0.1008,
        "m7i.xlarge": 0.2016,
        "m7i.2xlarge": 0.4032,
        "m7i.4xlarge": 0.8064,
        "m7i.8xlarge": 1.6128,
        "m7i.12xlarge": 2.4192,
        "m7i.16xlarge": 3.2256,
        "m7i.24xlarge": 4.8384,
    },
)
GCP = PriceList(
    "us-central1",
    "2026-07-30",
    "Google's price list for us-central1, on demand",
    dates={"n1": "2026-11-22"},
    machines={
        "g2-standard-4": 0.70683,
        "g2-standard-8": 0.85362,
        "g2-standard-12": 1.00042,
        "g2-standard-16": 1.14721,
        "g2-standard-24": 2.00083,
        "g2-standard-32": 1.73438,
        "g2-standard-48": 4.00167,
        "g2-standard-96": 8.00333,
        "a2-highgpu-1g": 3.67339,
        "a2-highgpu-2g": 7.34677,
        "a2-highgpu-4g": 14.69354,
        "a2-highgpu-8g": 29.38708,
        "a2-ultragpu-1g": 5.0688,
        "a2-ultragpu-2g": 10.1376,
        "a2-ultragpu-4g": 20.27519,
        "a2-ultragpu-8g": 40.55038,
    },
    per_vcpu={"n1": 0.0474998, "e2": 0.0335057, "n2": 0.048559},
    per_gpu={"nvidia-tesla-t4": 0.35, "nvidia-tesla-v100": 2.48},
)
PRICE_LISTS = {"aws": AWS, "gcp": GCP}
