"""Compute Engine instances by Railhead's labels."""

from __future__ import annotations

import shlex

from ...errors import UsageError
from ..base import Incomplete
from ..machines import Listed, Machine, PartlyListed, Place
from .client import GoogleClient, connect
from .compute import Instance
from .labels import CLUSTER, ID, OWNER, STACK
from .listed import aggregated

PAGE = 500


def list_machines(place: Place, client: GoogleClient | None = None) -> Listed:
    """The instances of a project, in all zones, that have the label `railhead-cluster`.

    Raises:
        PartlyListed: Google does not reach a zone.
        RailheadError: Google does not answer.
    """
    if not place.project:
        raise UsageError("the project of the machines is not known")
    client = client or connect()
    path = f"projects/{place.project}/aggregated/instances"
    query = {"filter": f"labels.{CLUSTER}:*", "maxResults": str(PAGE)}
    account, machines = f"project {place.project}", list[Machine]()
    try:
        for instance in aggregated(client, Instance, path, query):
            machines.append(_machine(instance, place.project))
    except Incomplete as error:
        raise PartlyListed(error.message, Listed(account, tuple(machines))) from None
    return Listed(account, tuple(machines))


def _machine(instance: Instance, project: str) -> Machine:
    labels, name, interface = instance.labels, instance.name, instance.interface
    zone = instance.zone.rpartition("/")[2]
    return Machine(
        id=instance.path,
        name=name,
        state=instance.state,
        region=zone.rpartition("-")[0],
        zone=zone,
        type=instance.machineType.rpartition("/")[2],
        address=interface.public or None,
        peer_address=interface.networkIP or None,
        cluster=labels.get(CLUSTER, ""),
        cluster_id=labels.get(ID),
        stack=labels.get(STACK),
        owner=labels.get(OWNER),
        end=shlex.join(
            ["gcloud", "compute", "instances", "delete", name]
            + ["--project", project, "--zone", zone]
        ),
        deadline=name,
    )
