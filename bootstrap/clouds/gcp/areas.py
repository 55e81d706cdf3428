"""The areas of Google Cloud: each project that the credentials see.

Networks, firewall rules and service accounts have no labels: they are recognised by their
description.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import TypeVar

from railhead.documents import times
from railhead.documents.lazy import dataclass
from railhead.money.host import DiskSpec
from railhead.money.table import shipped

from ..areas import BUCKET, MACHINE, NO_DEADLINE, Area, Lists, Resource
from ..base import Refused
from ..bucket import Bucket
from ..costs import bucket_per_day, disk_per_day, per_day
from ..machines import Place
from ..storage import count_objects, describe_contents
from .client import GoogleClient, connect, default_project, endpoint
from .compute import STATES
from .gcs import Gcs
from .labels import CLUSTER, ID, OWNER, read_description
from .listed import Account, Item, ListedBucket, ListedProject, aggregated

T = TypeVar("T")
PAGE = 500
ACCOUNT = re.compile(r"rh-[a-z0-9-]+-([0-9a-f]{12})@")
OFF = ("accessNotConfigured", "SERVICE_DISABLED")  # the project has not enabled the API


def areas(known: Collection[Place]) -> list[Area]:
    """The project of the credentials, those that `known` names, and those that Resource Manager
    lists."""
    client = connect()
    named = {place.project for place in known if place.project} | {default_project()} - {None}
    try:
        address = f"{endpoint('cloudresourcemanager')}v1/projects"
        query = {"filter": "lifecycleState:ACTIVE", "pageSize": str(PAGE)}
        projects = client.items(ListedProject, address, query, "projects")
        listed = {project.projectId for project in _enabled(projects)}
    except Refused:  # many identities see one project and may not list any
        listed = set()
    return [
        Project(str(name), client, name in named) for name in sorted({*named, *listed}, key=str)
    ]


@dataclass(frozen=True)
class Kind:
    """A kind of Compute Engine's resources.

    Attributes:
        name: for people.
        path: the list, below the project.
        command: the group of `gcloud compute`.
        labelled: whether it has labels; others are recognised by their description.
    """

    name: str
    path: str
    command: str
    labelled: bool = True


# In the order in which Google removes them.
KINDS = (
    Kind(MACHINE, "aggregated/instances", "instances"),
    Kind("disk", "aggregated/disks", "disks"),
    Kind("snapshot", "global/snapshots", "snapshots"),
    Kind("address", "aggregated/addresses", "addresses"),
    Kind("firewall rule", "global/firewalls", "firewall-rules", labelled=False),
    Kind("subnet", "aggregated/subnetworks", "networks subnets", labelled=False),
    Kind("network", "global/networks", "networks", labelled=False),
)


@dataclass(frozen=True)
class Project:
    """One project: Compute Engine, IAM and Cloud Storage."""

    name: str
    client: GoogleClient
    expected: bool
    cloud: str = "gcp"

    def lists(self) -> Lists:
        """What is listed in a project, machines first."""
        kinds = {kind.name: partial(self._of_compute, kind) for kind in KINDS}
        return {**kinds, "role": self._accounts, BUCKET: self._buckets}

    def _of_compute(self, kind: Kind) -> Iterator[Resource]:
        for item in self._items(kind):
            described = read_description(item.description)
            labels = item.labels if kind.labelled else {}
            if CLUSTER not in labels and (kind.labelled or not described.cluster):
                continue
            yield Resource(
                kind.name,
                item.path,
                item.place,
                _details(kind, item),
                self._typed(kind, item),
                partial(_delete, self.client, item.path),
                moment(item.creationTimestamp),
                _usd_per_day(kind, item),
                labels.get(CLUSTER, described.cluster),
                labels.get(ID, described.cluster_id),
                owner=labels.get(OWNER, described.owner),
            )

    def _items(self, kind: Kind) -> Iterator[Item]:
        path = f"projects/{self.name}/{kind.path}"
        query = {"maxResults": str(PAGE)}
        if kind.labelled:
            query["filter"] = f"labels.{CLUSTER}:*"
        if kind.path.startswith("aggregated/"):
            return _enabled(aggregated(self.client, Item, path, query))
        return _enabled(self.client.items(Item, path, query))

    def _typed(self, kind: Kind, item: Item) -> str:
        words = ["gcloud", "compute", *kind.command.split(), "delete", item.name]
        words += ["--project", self.name]
        _, _, scope, place, *_ = item.path.split("/")
        if scope in ("zones", "regions"):
            words += [f"--{scope[:-1]}", place]
        elif kind.name == "address":
            words += ["--global"]
        return shlex.join(words)

    def _accounts(self) -> Iterator[Resource]:
        address = f"{endpoint('iam')}v1/projects/{self.name}/serviceAccounts"
        listed = self.client.items(Account, address, {"pageSize": "100"}, "accounts")
        for account in _enabled(listed):
            described = read_description(account.description)
            match = ACCOUNT.match(account.email)
            if described.cluster is None:
                continue
            words = ["gcloud", "iam", "service-accounts", "delete", account.email]
            yield Resource(
                "role",
                account.name,
                "global",
                "service account",
                shlex.join([*words, "--project", self.name]),
                partial(_delete, self.client, f"{endpoint('iam')}v1/{account.name}"),
                cluster=described.cluster,
                cluster_id=match[1] if match else described.cluster_id,
                owner=described.owner,
            )

    def _buckets(self) -> Iterator[Resource]:
        address = f"{self.client.storage}storage/v1/b"
        query = {"project": self.name, "returnPartialSuccess": "true"}
        for bucket in _enabled(self.client.items(ListedBucket, address, query)):
            if CLUSTER in bucket.labels:
                yield self._bucket(bucket)

    def _bucket(self, bucket: ListedBucket) -> Resource:
        store = Gcs(self.client, bucket.name)
        contents = count_objects(store)
        region = bucket.location.lower()
        words = ["gcloud", "storage", "buckets", "delete", f"gs://{bucket.name}"]
        if contents.versions:
            words = ["gcloud", "storage", "rm", "--recursive", "--all-versions", words[-1]]
        return Resource(
            BUCKET,
            bucket.name,
            region,
            describe_contents(contents),
            shlex.join(words),
            partial(_remove_bucket, store),
            moment(bucket.timeCreated),
            bucket_per_day("gcp", region, contents),
            bucket.labels.get(CLUSTER),
            bucket.labels.get(ID),
            owner=bucket.labels.get(OWNER),
        )


def _enabled(items: Iterable[T]) -> Iterator[T]:
    """The items of a list; none if the project has not enabled the API."""
    try:
        yield from items
    except Refused as refused:
        if refused.error_code not in OFF and "it is disabled" not in refused.message:
            raise


def _details(kind: Kind, item: Item) -> str:
    last = item.type.rpartition("/")[2]
    details = {
        MACHINE: f"{_type_of(item)}, {_state(item)}{_deadline(item)}",
        "disk": f"{item.sizeGb} GB {last}",
        "snapshot": f"of a disk of {item.diskSizeGb} GB",
        "address": f"{item.address} {item.status.lower()}",
    }
    return details.get(kind.name, "")


def _deadline(item: Item) -> str:
    runs = _state(item) == "running"
    return NO_DEADLINE if runs and not item.scheduling.maxRunDuration else ""


def _type_of(item: Item) -> str:
    gpus = (
        f" with {g.acceleratorCount} {_last(g.acceleratorType)}" for g in item.guestAccelerators
    )
    spot = " spot" if _is_spot(item) else ""
    return f"{_last(item.machineType)}{spot}{''.join(gpus)}"


def _state(item: Item) -> str:
    return STATES.get(item.status, "unknown")


def _is_spot(item: Item) -> bool:
    return item.scheduling.provisioningModel == "SPOT" or item.scheduling.preemptible


def _usd_per_day(kind: Kind, item: Item) -> float | None:
    """USD per day; None if it is unknown."""
    if kind.name == MACHINE:
        return _price(item)
    if kind.name == "disk":
        disk = DiskSpec(int(item.sizeGb or 0))
        return disk_per_day(disk, "gcp", _last(item.type), _region(item))
    return None if kind.name in ("snapshot", "address") else 0.0


def _price(item: Item) -> float | None:
    if item.status in ("TERMINATED", "STOPPED"):
        return 0.0
    gpus = item.guestAccelerators
    attached = (_last(gpus[0].acceleratorType), gpus[0].acceleratorCount) if gpus else None
    kind, region, spot = _last(item.machineType), _region(item), _is_spot(item)
    return per_day(shipped("gcp").machine(kind, region, attached, spot=spot))


def _region(item: Item) -> str:
    """The region of its zone, or the region that it is in."""
    return re.sub(r"-[a-z]$", "", item.place)


def _last(address: str) -> str:
    return address.rpartition("/")[2]


def _delete(client: GoogleClient, path: str, _with_content: bool) -> None:
    client("DELETE", path)


def _remove_bucket(store: Gcs, with_content: bool) -> None:
    if with_content:
        Bucket(store).empty()
    store.client("DELETE", f"{store.client.storage}storage/v1/b/{store.name}")


def moment(text: str) -> str:
    """A time as Google writes it, for people; empty for none."""
    time = times.moment(text)
    return times.shown(time) if time else ""
