"""What bills although the machines are stopped: disks on AWS, and what a bucket holds on both.

Prices are in USD, where they are known; elsewhere nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bootstrap.clouds.aws.client import Ask
from bootstrap.clouds.base import Cost
from bootstrap.clouds.storage import NoBucket, Store, count_objects

GP3 = {"us-east-1": 0.08, "us-east-2": 0.08, "us-west-2": 0.08}  # per month, as of July 2026
DAYS = 30.4  # in a month
GB = 1 << 30  # bytes: what both clouds bill as one


@dataclass(frozen=True)
class Prices:
    """What a GB costs in a month, by region; where that was read, and of when it is."""

    of: Mapping[str, float]
    source: str


S3 = Prices(
    {"us-east-1": 0.023, "us-east-2": 0.023, "us-west-2": 0.023},
    "S3 Standard, first 50 TB; aws.amazon.com/s3/pricing, July 2026",
)
AT_20 = "us-central1 us-east1 us-east5 us-south1 us-west1 europe-north1 europe-west1"
AT_23 = "us-east4 us-west2 us-west3 us-west4 europe-west2"
GCS = Prices(  # us-central1 as the page had it on 2026-09-20, the others from a copy of 2025
    {**dict.fromkeys(AT_20.split(), 0.020), **dict.fromkeys(AT_23.split(), 0.023)},
    "Standard storage; cloud.google.com/storage/pricing, 2025 to September 2026",
)


def disks(ask: Ask, region: str | None, names: Mapping[str, str]) -> Iterator[Cost]:
    """The disks of machines whose names are given by their ids."""
    filters = [{"Name": "attachment.instance-id", "Values": list(names)}]
    for disk in ask("ec2", "describe_volumes", Filters=filters)["Volumes"]:
        held_by = ", ".join(names[a["InstanceId"]] for a in disk["Attachments"])
        each = GP3.get(region or "") if disk.get("VolumeType") == "gp3" else None
        per_day = None if each is None else disk["Size"] * each / DAYS
        what = f"disk {disk['VolumeId']} of {held_by}, {disk['Size']} GB"
        yield Cost(what, per_day, "fab teardown --destroy")


def bucket(store: Store, region: str | None, prices: Prices) -> Iterator[Cost]:
    """A bucket. All versions of its objects count: all are billed. One that is gone costs
    nothing."""
    try:
        found = count_objects(store)
    except NoBucket:
        return
    each = prices.of.get(region or "")
    known = each is not None and found.whole
    more = "" if found.whole else "more than "
    size = f"{more}{found.versions} objects with their old versions, {found.size / GB:.2f} GB"
    yield Cost(
        f"bucket {store.url}, {size}",
        found.size / GB * each if known and each else None,
        "fab teardown --destroy --with-bucket",
        per="month",
        source=f"{each:g} USD per GB in {region}: {prices.source}" if known else "",
    )
