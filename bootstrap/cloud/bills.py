"""What bills on AWS although the machines are stopped: their disks, and what the bucket holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bootstrap.cloud import Cost
from bootstrap.cloud.boto import Ask

# USD per GB and month, as of July 2026, where they are known; elsewhere nothing is guessed.
GP3 = {"us-east-1": 0.08, "us-east-2": 0.08, "us-west-2": 0.08}
S3 = {"us-east-1": 0.023, "us-east-2": 0.023, "us-west-2": 0.023}
DAYS = 30.4  # in a month
PAGES = 20  # of a thousand objects: a bucket with more is not counted to its end


def disks(ask: Ask, region: str | None, names: Mapping[str, str]) -> Iterator[Cost]:
    """The disks of machines whose names are given by their ids."""
    filters = [{"Name": "attachment.instance-id", "Values": list(names)}]
    for disk in ask("ec2", "describe_volumes", Filters=filters)["Volumes"]:
        held = ", ".join(names[a["InstanceId"]] for a in disk["Attachments"])
        each = GP3.get(region or "") if disk.get("VolumeType") == "gp3" else None
        per_day = None if each is None else disk["Size"] * each / DAYS
        what = f"disk {disk['VolumeId']} of {held}, {disk['Size']} GB"
        yield Cost(what, per_day, "fab teardown --destroy")


def bucket(ask: Ask, region: str | None, url: str) -> Cost:
    """A bucket, s3://name. All versions of its objects count: all are billed."""
    words: dict[str, Any] = {"Bucket": url.removeprefix("s3://")}
    objects, held, whole = 0, 0, False
    for _ in range(PAGES):
        page = ask("s3", "list_object_versions", **words)
        versions = page.get("Versions", [])
        objects, held = objects + len(versions), held + sum(v["Size"] for v in versions)
        whole = not page.get("IsTruncated")
        if whole:
            break
        words |= {"KeyMarker": page["NextKeyMarker"]}
        words |= {"VersionIdMarker": page["NextVersionIdMarker"]}
    each = S3.get(region or "")
    per_day = held / 1e9 * each / DAYS if each is not None and whole else None
    what = f"bucket {url}, {'' if whole else 'more than '}{objects} objects, {held / 1e9:.2f} GB"
    return Cost(what, per_day, "fab teardown --destroy --with-bucket")
