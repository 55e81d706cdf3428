"""The machines with Railhead's tags in one place of a cloud, whoever created them.

RailheadError: the cloud does not answer, or refuses.
"""

from __future__ import annotations

from collections.abc import Collection

from railhead.documents.lazy import dataclass

from ..errors import RailheadError
from ..inventory.clouds import CLOUDS
from . import base

MOST_PAGES = 100  # of a list; a longer one is an error


@dataclass(frozen=True)
class Place:
    """Where machines are listed: a region on AWS, a project on Google Cloud. `account` is that on
    AWS, if it is known."""

    cloud: str
    region: str | None = None
    project: str | None = None
    account: str | None = None


@dataclass(frozen=True)
class Machine:
    """One machine as its cloud lists it; `cluster`, `cluster_id`, `stack` and `owner` are tags.
    `state` is one of base.STATES. `id` has the form of a host's id in the cluster document. `end`
    is the cloud's own command that ends this machine, `deadline` the name of what stops it
    there."""

    id: str
    name: str
    state: str
    region: str
    zone: str
    type: str
    address: str | None
    peer_address: str | None
    cluster: str
    cluster_id: str | None = None
    stack: str | None = None
    owner: str | None = None
    end: str = ""
    deadline: str = ""

    def __str__(self) -> str:
        tags = {"cluster": self.cluster, "stack": self.stack, "owner": self.owner}
        listed = ", ".join(f"{key} {value}" for key, value in tags.items() if value)
        return f"{self.name} ({self.id}, {self.type} in {self.zone}): {self.state}; {listed}"


@dataclass(frozen=True)
class Listed:
    """The machines of a place; `account` is the owner of the credentials: `account 1234`."""

    account: str
    machines: tuple[Machine, ...]


class PartlyListed(RailheadError):
    """The cloud does not reach some zones: `listed` are the machines of the others."""

    def __init__(self, message: str, listed: Listed) -> None:
        super().__init__(message)
        self.listed = listed


def place_named(region: str | None, project: str | None) -> Place | None:
    """The place that options name: a project of the cloud that has projects, or a region of the
    other; None if they name none."""
    if region is None and project is None:
        return None
    by_region = project is None
    clouds = [name for name, kind in CLOUDS.items() if kind.machines]
    cloud = next(name for name in clouds if (CLOUDS[name].everywhere is not None) == by_region)
    return Place(cloud, region, project)


def list_machines(place: Place) -> Listed:
    """All machines of a place that have Railhead's tags and are not terminated; those of all
    regions if it names none. PartlyListed: the cloud does not reach some zones."""
    kind = CLOUDS[place.cloud]
    name = kind.machines if place.region or not kind.everywhere else kind.everywhere
    return base.call(name, place, otherwise=Listed("", ()))


def remove_leftovers(place: Place, cluster_id: str) -> list[str]:
    """Remove what a killed `up` left, except machines; returns the ids of what was removed."""
    return base.call(CLOUDS[place.cloud].leftovers, place, cluster_id, otherwise=[])


def remove_bucket(place: Place, name: str, cluster_id: str) -> bool:
    """Remove the bucket of this name if it has the stack's id and no object; whether it is gone."""
    return base.call(CLOUDS[place.cloud].own_bucket, place, name, cluster_id, otherwise=False)


def remove_deadlines(place: Place, cluster: str, ids: Collection[str]) -> list[str]:
    """Remove the cloud's own deadlines of these machines, if they are separate resources; the names
    of those that existed. `cluster`: the name that the cluster had first."""
    name = CLOUDS[place.cloud].deadlines if ids else None
    return base.call(name, place, cluster, ids, otherwise=[])


def too_many(subject: str) -> RailheadError:
    """The error for a list with too many pages."""
    return RailheadError(f"{subject}: the list has more than {MOST_PAGES} pages")
