"""Compute Engine instances by Railhead's labels."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ...errors import UsageError
from ..machines import Listed, Machine, PartlyListed, Place
from .client import GoogleClient, connect
from .compute import Instance, Zones
from .labels import CLUSTER, ID, OWNER, STACK

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
    pages = [*_pages(client, place.project)]
    machines = tuple(
        _machine(instance, place.project)
        for page in pages
        for zone in page.items.values()
        for instance in zone.instances
    )
    listed = Listed(f"project {place.project}", machines)
    if missing := sorted({zone for page in pages for zone in page.missing}):
        raise PartlyListed(f"Google does not reach {', '.join(missing)}", listed)
    return listed


def _pages(client: GoogleClient, project: str) -> Iterator[Zones]:
    query = {"filter": f"labels.{CLUSTER}:*", "maxResults": str(PAGE)}
    return client.pages(Zones, f"projects/{project}/aggregated/instances", query)


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
