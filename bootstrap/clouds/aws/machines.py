"""EC2 instances by Railhead's tags."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ..base import Refused
from ..machines import Listed, Machine, Place
from . import scheduler
from .client import UNAUTHORIZED, AwsClient, connect
from .ec2 import REGION_OF_LISTS, Instance, account, enabled_regions, reservations
from .kinds import CLUSTER, ID, OWNER, STACK

ALIVE = ("pending", "running", "shutting-down", "stopping", "stopped")


def list_machines(place: Place, client: AwsClient | None = None) -> Listed:
    """The instances of a region that have the tag `railhead:cluster`."""
    client = client or connect(place.region)
    return Listed(account(client), tuple(_in_region(client, place.region)))


def list_everywhere(_place: Place) -> Listed:
    """As `list_machines`, in all regions that the account has enabled. Many organisations forbid
    some regions, so nobody has machines there. Refused: all regions refuse; or as
    `list_machines`."""
    client = connect(REGION_OF_LISTS)
    regions = enabled_regions(client)
    machines: list[Machine] = []
    refusals: list[Refused] = []
    for region in regions:
        try:
            machines += _in_region(connect(region), region)
        except Refused as refused:
            if refused.error_code not in UNAUTHORIZED:
                raise
            refusals.append(refused)
    if len(refusals) == len(regions):
        raise refusals[0]
    return Listed(account(client), tuple(machines))


def _in_region(client: AwsClient, region: str | None) -> Iterator[Machine]:
    shown = reservations(client, tag_key=[CLUSTER], instance_state_name=ALIVE)
    for reservation in shown:
        yield from (_machine(instance, region) for instance in reservation.Instances)


def _machine(instance: Instance, region: str | None) -> Machine:
    tags = instance.tags
    return Machine(
        id=instance.InstanceId,
        name=tags.get("Name") or instance.InstanceId,
        state=instance.state,
        region=str(region),
        zone=instance.Placement,
        type=instance.InstanceType,
        address=instance.PublicIpAddress or None,
        peer_address=instance.PrivateIpAddress or None,
        cluster=tags.get(CLUSTER, ""),
        cluster_id=tags.get(ID),
        stack=tags.get(STACK),
        owner=tags.get(OWNER),
        end=shlex.join(
            ["aws", "ec2", "terminate-instances", "--region", str(region)]
            + ["--instance-ids", instance.InstanceId]
        ),
        deadline=scheduler.name_of(tags.get(CLUSTER, ""), instance.InstanceId),
    )
