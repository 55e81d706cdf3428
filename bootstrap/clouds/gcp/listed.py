"""The parts of Google's lists of resources that are read here. The fields have Google's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from railhead.documents.lazy import dataclass


def path_of(link: str) -> str:
    """projects/PROJECT/..., of the whole address of a resource."""
    return "projects/" + link.rpartition("/projects/")[2]


@dataclass(frozen=True)
class Page:
    """One page of a list."""

    nextPageToken: str = ""


@dataclass(frozen=True)
class ListedProject:
    """A project in Resource Manager's list."""

    projectId: str


@dataclass(frozen=True)
class Projects(Page):
    """The answer of projects.list."""

    projects: tuple[ListedProject, ...] = ()


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
class Warned:
    """Why a zone or region has no resources in a list."""

    code: str = ""


@dataclass(frozen=True)
class OfScope:
    """The part of one zone or region in a list of all."""

    warning: Warned = Warned()


@dataclass(frozen=True)
class Aggregated(Page):
    """The answer of an aggregatedList."""

    items: Mapping[str, OfScope] = field(default_factory=dict)
    unreachables: tuple[str, ...] = ()

    @property
    def missing(self) -> set[str]:
        """The zones and regions whose resources are not in the list."""
        warned = {n for n, scope in self.items.items() if scope.warning.code == "UNREACHABLE"}
        return warned | {*self.unreachables}


@dataclass(frozen=True)
class Scope(OfScope):
    """The resources of one zone or region."""

    instances: tuple[Item, ...] = ()
    disks: tuple[Item, ...] = ()
    addresses: tuple[Item, ...] = ()
    subnetworks: tuple[Item, ...] = ()


@dataclass(frozen=True)
class Scopes(Aggregated):
    """The resources of all zones and regions."""

    items: Mapping[str, Scope] = field(default_factory=dict)


@dataclass(frozen=True)
class Items(Page):
    """The answer of a list of resources of the whole project."""

    items: tuple[Item, ...] = ()


@dataclass(frozen=True)
class Account:
    """A service account."""

    name: str
    email: str
    description: str = ""


@dataclass(frozen=True)
class Accounts(Page):
    """The answer of serviceAccounts.list."""

    accounts: tuple[Account, ...] = ()


@dataclass(frozen=True)
class ListedBucket:
    """A bucket."""

    name: str
    location: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    timeCreated: str = ""


@dataclass(frozen=True)
class Buckets(Page):
    """The answer of buckets.list."""

    items: tuple[ListedBucket, ...] = ()
    unreachable: tuple[str, ...] = ()
