"""EC2 instances by Railhead's tags."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from bootstrap.clouds.aws.client import AwsClient, connect
from bootstrap.clouds.aws.instances import STATES
from bootstrap.clouds.machines import MOST_PAGES, Listed, Machine, Place, too_many

ALIVE = ("pending", "running", "shutting-down", "stopping", "stopped")
FILTERS = (
    {"Name": "tag-key", "Values": ["railhead:cluster"]},
    {"Name": "instance-state-name", "Values": list(ALIVE)},
)
PAGE = 500


def list_machines(place: Place, client: AwsClient | None = None) -> Listed:
    """The instances of a region that have the tag `railhead:cluster`."""
    client = client or connect(place.region)
    account = f"account {client('sts', 'get_caller_identity')['Account']}"
    return Listed(account, tuple(_machine(each, place.region) for each in _instances(client)))


def _instances(client: AwsClient) -> Iterator[Mapping[str, Any]]:
    more: dict[str, str] = {}
    for _ in range(MOST_PAGES):
        answer = client("ec2", "describe_instances", Filters=list(FILTERS), MaxResults=PAGE, **more)
        for reservation in answer["Reservations"]:
            yield from reservation["Instances"]
        if not answer.get("NextToken"):
            return
        more = {"NextToken": answer["NextToken"]}
    raise too_many("EC2 DescribeInstances")


def _machine(instance: Mapping[str, Any], region: str | None) -> Machine:
    tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", ())}
    return Machine(
        id=instance["InstanceId"],
        name=tags.get("Name") or instance["InstanceId"],
        state=STATES.get(instance.get("State", {}).get("Name", ""), "unknown"),
        zone=instance.get("Placement", {}).get("AvailabilityZone", ""),
        type=instance.get("InstanceType", ""),
        address=instance.get("PublicIpAddress") or None,
        peer_address=instance.get("PrivateIpAddress") or None,
        cluster=tags.get("railhead:cluster", ""),
        cluster_id=tags.get("railhead:id"),
        stack=tags.get("railhead:stack"),
        owner=tags.get("railhead:owner"),
        end=shlex.join(
            ["aws", "ec2", "terminate-instances", "--region", str(region)]
            + ["--instance-ids", instance["InstanceId"]]
        ),
    )
