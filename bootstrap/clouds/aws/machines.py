"""EC2 instances by Railhead's tags."""

from __future__ import annotations

import shlex

from ..machines import Listed, Machine, Place
from . import scheduler
from .client import AwsClient, connect
from .ec2 import Instance, account, reservations
from .kinds import CLUSTER, ID, OWNER, STACK

ALIVE = ("pending", "running", "shutting-down", "stopping", "stopped")


def list_machines(place: Place, client: AwsClient | None = None) -> Listed:
    """The instances of a region that have the tag `railhead:cluster`."""
    client = client or connect(place.region)
    shown = reservations(client, tag_key=[CLUSTER], instance_state_name=ALIVE)
    machines = (
        _machine(one, place.region) for reservation in shown for one in reservation.Instances
    )
    return Listed(account(client), tuple(machines))


def _machine(instance: Instance, region: str | None) -> Machine:
    tags = instance.tags
    return Machine(
        id=instance.InstanceId,
        name=tags.get("Name") or instance.InstanceId,
        state=instance.state,
        region=str(region),
        zone=instance.Placement.AvailabilityZone,
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
        deadline=scheduler.name_of(tags.get("railhead:cluster", ""), instance.InstanceId),
    )
