"""Everything with Railhead's tags in a cloud, whoever created it, by area.

An area is listed on its own: a region of AWS, its services for all regions, a project of Google
Cloud.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field
from typing import Protocol

from railhead.documents.lazy import dataclass

from ..errors import RailheadError
from ..inventory.clouds import CLOUDS
from . import base
from .machines import Place

MACHINE = "machine"
BUCKET = "bucket"


NO_DEADLINE = ", NO DEADLINE of the cloud"  # in the details of a machine that runs


@dataclass(frozen=True)
class Resource:
    """One resource with Railhead's tags.

    Attributes:
        kind: machine, disk, snapshot, address, bucket, schedule, role, or a part of a network.
        id: as in Pulumi's state.
        place: its zone or region.
        details: its type, state and size, for people.
        end: the cloud's own command that removes it.
        remove: lets the cloud remove it, and returns when the cloud has accepted; RailheadError
            if it refuses. With True it removes the objects of a bucket first: the cloud removes
            only an empty bucket.
        since: when it was created, or last started; empty if the cloud does not report it.
        usd_per_day: None if it is unknown.
        cluster, cluster_id, stack, owner: its tags.
    """

    kind: str
    id: str
    place: str
    details: str
    end: str
    remove: Callable[[bool], None] = field(compare=False, repr=False)
    since: str = ""
    usd_per_day: float | None = 0.0
    cluster: str | None = None
    cluster_id: str | None = None
    stack: str | None = None
    owner: str | None = None


Lists = Mapping[str, Callable[[], Iterable[Resource]]]


class Forbidden(RailheadError):
    """The credentials may not use this area, and no config, record or stack here names it."""


class Area(Protocol):
    """An area. `expected`: a config, a record or a stack here names it, or it is always there. In
    other areas, missing rights are not a failure."""

    @property
    def cloud(self) -> str:
        """The cloud's name in the registry."""

    @property
    def name(self) -> str:
        """The region or the project."""

    @property
    def expected(self) -> bool:
        """Whether it must be possible to list it."""

    def lists(self) -> Lists:
        """The functions that list resources, by what they list; each may raise RailheadError."""


def areas(cloud: str, known: Collection[Place]) -> list[Area]:
    """All areas of a cloud that the credentials see, and those that `known` names.

    Raises:
        NoCredentials: there are none, or the cloud's SDK is not installed.
        RailheadError: the cloud does not answer, or refuses.
    """
    return base.call(CLOUDS[cloud].areas, known, otherwise=[])


def clouds_with_areas() -> list[str]:
    """The clouds whose resources can be listed."""
    return [name for name, kind in CLOUDS.items() if kind.areas]
