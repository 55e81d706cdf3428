"""Costs that go on while the instances are stopped: EBS disks, and a bucket's content.

Prices are in USD per GB and month; where a price is not known, no amount is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bootstrap.clouds.aws.client import AwsClient
from bootstrap.clouds.base import Cost
from bootstrap.clouds.storage import NoBucket, Store, count_objects
from bootstrap.errors import Command

GP3 = {"us-east-1": 0.08, "us-east-2": 0.08, "us-west-2": 0.08}  # per month, as of July 2026
DAYS = 30.4  # in a month
GB = 1 << 30  # bytes: the unit that both clouds bill


@dataclass(frozen=True)
class Prices:
    """The price of a GB per month, by region; `source` names the price list and its date."""

    by_region: Mapping[str, float]
    source: str


S3 = Prices(
    {"us-east-1": 0.023, "us-east-2": 0.023, "us-west-2": 0.023},
    "S3 Standard, first 50 TB; aws.amazon.com/s3/pricing, July 2026",
)
AT_20 = "us-central1 us-east1 us-east5 us-south1 us-west1 europe-north1 europe-west1"
AT_23 = "us-east4 us-west2 us-west3 us-west4 europe-west2"
GCS = Prices(  # us-central1 from the page of 2026-09-20, the others from a copy of 2025
    {**dict.fromkeys(AT_20.split(), 0.020), **dict.fromkeys(AT_23.split(), 0.023)},
    "Standard storage; cloud.google.com/storage/pricing, 2025 to September 2026",
)


def disks(client: AwsClient, region: str | None, names: Mapping[str, str]) -> Iterator[Cost]:
    """The EBS disks of instances; `names` has their host names by instance id."""
    filters = [{"Name": "attachment.instance-id", "Values": list(names)}]
    for disk in client("ec2", "describe_volumes", Filters=filters)["Volumes"]:
        held_by = ", ".join(names[a["InstanceId"]] for a in disk["Attachments"])
        price = GP3.get(region or "") if disk.get("VolumeType") == "gp3" else None
        per_day = None if price is None else disk["Size"] * price / DAYS
        what = f"disk {disk['VolumeId']} of {held_by}, {disk['Size']} GB"
        yield Cost(what, per_day, Command("teardown", destroy=True))


def bucket(store: Store, region: str | None, prices: Prices) -> Iterator[Cost]:
    """A bucket's content with all versions, as all are billed; none if it does not exist."""
    try:
        found = count_objects(store)
    except NoBucket:
        return
    price = prices.by_region.get(region or "")
    known = price is not None and found.whole
    more = "" if found.whole else "more than "
    size = f"{more}{found.versions} objects with their old versions, {found.size / GB:.2f} GB"
    yield Cost(
        f"bucket {store.url}, {size}",
        found.size / GB * price if known and price else None,
        Command("teardown", destroy=True, with_bucket=True),
        per="month",
        source=f"{price:g} USD per GB in {region}: {prices.source}" if known else "",
    )
