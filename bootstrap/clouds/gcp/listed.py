"""The parts of Google's lists of resources that are read here. The fields have Google's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from railhead.documents.codec import decode, key
from railhead.documents.lazy import dataclass

from ...errors import RailheadError
from .client import GoogleClient, Page, refuse_missing


def path_of(link: str) -> str:
    """projects/PROJECT/..., of the whole address of a resource."""
    return "projects/" + link.rpartition("/projects/")[2]


@dataclass(frozen=True)
class ListedProject:
    """A project in Resource Manager's list."""

    projectId: str


@dataclass(frozen=True)
class Accelerator:
    """GPUs of an instance; `acceleratorType` is the address of their type."""

    acceleratorType: str = ""
    acceleratorCount: int = 0


@dataclass(frozen=True)
class Provisioning:
    """Whether an instance is a spot machine, and how long it may run."""

    provisioningModel: str = ""
    preemptible: bool = False
    maxRunDuration: Any = None


@dataclass(frozen=True)
class Item:
    """A resource of Compute Engine, of any kind."""

    name: str = ""
    selfLink: str = ""
    description: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    creationTimestamp: str = ""
    status: str = ""
    type: str = ""
    sizeGb: str = ""
    diskSizeGb: str = ""
    address: str = ""
    machineType: str = ""
    guestAccelerators: tuple[Accelerator, ...] = ()
    scheduling: Provisioning = Provisioning()

    @property
    def path(self) -> str:
        """projects/PROJECT/zones/ZONE/KIND/NAME, as in Pulumi's state."""
        return path_of(self.selfLink)

    @property
    def place(self) -> str:
        """Its zone or region; `global` for others."""
        parts = self.path.split("/")
        return parts[3] if parts[2] in ("zones", "regions") else "global"


@dataclass(frozen=True)
class Account:
    """A service account."""

    name: str
    email: str
    description: str = ""


@dataclass(frozen=True)
class ListedBucket:
    """A bucket."""

    name: str
    location: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    timeCreated: str = ""


@dataclass(frozen=True)
class Scope:
    """The part of one zone or region in a list of all."""

    warning: str = key("", path="code")
    others: Mapping[str, Any] = key({}, rest=True)


@dataclass(frozen=True)
class Scopes(Page):
    """A page of an aggregatedList."""

    items: Mapping[str, Scope] = key({})
    unreachables: tuple[str, ...] = ()


def aggregated(
    client: GoogleClient, kind: Any, path: str, query: Mapping[str, str]
) -> Iterator[Any]:
    """The resources in a list of all zones and regions, such as `projects/p/aggregated/disks`.

    Raises:
        Incomplete: at the end, if Google does not reach some of them.
        RailheadError: as in `GoogleClient.items`.
    """
    name, missing = path.rpartition("/")[2], set[str]()
    for page in client.pages(Scopes, path, query):
        missing |= {*page.unreachables}
        for place, scope in page.items.items():
            missing |= {place} if scope.warning == "UNREACHABLE" else set()
            listed = scope.others.get(name, ())
            yield from decode(tuple[kind, ...], listed, what=path, error=RailheadError)
    refuse_missing(missing)
