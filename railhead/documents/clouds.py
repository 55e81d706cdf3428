"""Facts about the clouds for the stacks, `fab` and the hosts."""

from __future__ import annotations

from railhead.documents.lazy import dataclass


@dataclass(frozen=True)
class CommonFacts:
    """`scheme` is that of its buckets' addresses. `no_capacity` are texts of its refusals for
    capacity, in its API and in Pulumi's errors. `default_region` is that of a stack whose config
    has none, `ssh_user` the login name of its machines, and `disk_type` the type of their disks.
    `region_form` matches the names of its regions: no name matches the forms of two clouds.
    `disk_includes` are the MiB/s and the IOPS that the price of a disk includes; None if they
    follow from its size."""

    scheme: str
    no_capacity: tuple[str, ...]
    default_region: str
    ssh_user: str
    disk_type: str
    region_form: str
    disk_includes: tuple[int, int] | None = None


POWER_OFF = ("sudo", "-n", "systemctl", "poweroff")  # of a machine that a stack created
COMMON_FACTS = {
    "aws": CommonFacts(
        "s3",
        ("InsufficientInstanceCapacity", "InsufficientHostCapacity", "UnfulfillableCapacity"),
        "us-east-1",
        "ubuntu",
        "gp3",
        r"[a-z]{2,}(-[a-z]+)+-\d+",
        (125, 3000),
    ),
    "gcp": CommonFacts(
        "gs",
        ("RESOURCE_POOL_EXHAUSTED", "does not have enough resources available"),
        "us-central1",
        "railhead",
        "pd-balanced",
        r"[a-z]+-[a-z]+\d+",
    ),
}


def is_no_capacity(text: str) -> bool:
    """Whether the message of a refusal means that the cloud has no capacity."""
    return any(code in text for facts in COMMON_FACTS.values() for code in facts.no_capacity)
