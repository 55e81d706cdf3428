"""What Pulumi's state contains about a stack: its outputs, its cloud, its machines and its id.
Pure.

The state has a machine as soon as its cloud has confirmed it, even if an `up` broke off before the
stack had outputs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

from railhead.documents.cluster import ClusterPrice
from railhead.documents.codec import decode
from railhead.documents.lazy import dataclass

from ..errors import UsageError
from .clouds import CLOUDS, STATE_TYPES, StateTypes

ROOT = "pulumi:pulumi:Stack"
STASH = "pulumi:index:Stash"
# The suffixes of the stashes' names, which begin with the cluster's name; stacks/ creates them.
ID, PLACE, ACCOUNT = "id", "place", "account"
PRICE, ZONES, SCHEDULE_PREFIX = "price-per-machine", "zones", "schedule-prefix"
OWN = "cluster"  # the logical name of the cluster in our own program
FORMER = {ID: "cluster-id", PLACE: "cluster-place", ACCOUNT: "cluster-account"}  # until 0.1.0
SECRET = "4dabf18193072939515e22adb298388d"  # the key by which Pulumi marks an encrypted value
COMPONENTS = frozenset(f"railhead:{name}:Cluster" for name in CLOUDS)
PROVIDERS = {k.state.provider: name for name, k in CLOUDS.items() if k.state and k.state.provider}
BUCKETS = {k.state.bucket: k.scheme for k in CLOUDS.values() if k.state and k.state.bucket}
SCHEDULES = {types.schedule for types in STATE_TYPES if types.schedule}
MACHINES = {types.machine: types for types in STATE_TYPES}


@dataclass(frozen=True)
class Resource:
    """A resource in Pulumi's state; the names in `inputs` and `outputs` are its provider's."""

    urn: str
    type: str
    id: str | None = None
    custom: bool = False
    external: bool = False
    protect: bool = False
    created: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name that its program gave it."""
        return self.urn.rpartition("::")[2]

    @property
    def is_made(self) -> bool:
        """Whether it belongs to a cloud, not to Pulumi itself."""
        return self.custom and not self.type.startswith("pulumi:")


@dataclass(frozen=True)
class Deployment:
    """The content of Pulumi's state."""

    resources: tuple[Resource, ...] | None = None


@dataclass(frozen=True)
class Exported:
    """What `pulumi stack export` prints."""

    deployment: Deployment | None = None


@dataclass(frozen=True)
class StateMachine:
    """A machine in Pulumi's state: `id` as in the cluster document, `account` from its ARN, `owner`
    from its tags. `until`: when its cloud stops it (2026-11-22T10:22:43+00:00), as set at its
    creation. `urn`: its name for Pulumi; empty if Pulumi has no state of it."""

    id: str
    name: str
    zone: str | None
    address: str | None
    peer_address: str | None
    account: str | None = None
    owner: str | None = None
    until: str | None = None
    urn: str = field(default="", compare=False)


@dataclass(frozen=True)
class RecordedPlace:
    """Where the first `up` created the stack."""

    cloud: str | None = None
    region: str | None = None
    project: str | None = None


@dataclass(frozen=True)
class StackState:
    """A stack's state. `document` is its output `cluster`, not checked yet; None if no `up` has
    finished.

    `cluster` is the name of the cluster, and `first_name` the one that it had when its first
    deadline was created: the names of deadlines contain it. `cloud`, `region`, `project` and
    `account` are those that the stack recorded; its config may have others. `price` is that of one
    machine. `kinds` are the types of all resources except Pulumi's own. `schedules` are the names
    of the deadlines that are separate resources. `zones` are those that may have capacity, in
    the order in which they are tried. `ids` are those of all resources of the cloud. `others` are
    further clusters of its program, with their ids. `protected` are machines and buckets
    that Pulumi must not delete: their names, with their types. `is_copy`: it was read from a copy,
    because the state itself is damaged.
    """

    stack: str
    document: object
    cluster: str | None
    cluster_id: str | None
    cloud: str | None
    region: str | None
    project: str | None
    bucket: str | None
    price: ClusterPrice | None
    machines: tuple[StateMachine, ...]
    kinds: tuple[str, ...]
    schedules: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    account: str | None = None
    first_name: str | None = None
    is_copy: bool = False
    others: Mapping[str, str | None] = field(default_factory=dict)
    protected: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_cluster(self) -> bool:
        """Whether Railhead created it. A backend may have stacks of other Pulumi projects."""
        return bool(self.cluster_id or self.cluster)


def resources_of(stack: str, exported: object) -> tuple[Resource, ...]:
    """All resources of `stack`, from what `pulumi stack export` prints.

    Raises:
        UsageError: it is not a state of Pulumi.
    """
    read = decode(Exported, exported, what=f"Pulumi's state of stack {stack}", error=UsageError)
    return (read.deployment or Deployment()).resources or ()


def read_state(stack: str, exported: object) -> StackState:
    """The state of `stack`: as `resources_of`. UsageError also if its price is damaged."""
    resources = resources_of(stack, exported)
    outputs = next((r.outputs for r in resources if r.type == ROOT), {})
    components = [r for r in resources if r.type in COMPONENTS]
    component = components[0] if components else None
    document = (component and component.outputs.get("document")) or outputs.get("cluster")
    stash = partial(_stash, resources, component.name if component else OWN)
    price = stash(PRICE).get("input")
    zones = stash(ZONES).get("input")
    subject = f"{PRICE} in Pulumi's state of stack {stack}"
    place = _place(resources, stash(PLACE).get("input"))
    schedules = [r.inputs for r in resources if r.type in SCHEDULES]
    machines = tuple(machine for r in resources if (machine := _machine(r, schedules)))
    return StackState(
        stack=stack,
        document=document if isinstance(document, Mapping) and SECRET not in document else None,
        cluster=_cluster_name(component) if component else None,
        cluster_id=_text(stash(ID).get("output")),
        cloud=place.cloud,
        region=place.region,
        project=place.project,
        bucket=next((f"{BUCKETS[r.type]}://{r.id}" for r in resources if r.type in BUCKETS), None),
        price=decode(ClusterPrice, price, what=subject, error=UsageError) if price else None,
        machines=machines,
        kinds=tuple(r.type for r in resources if r.is_made),
        schedules=tuple(str(schedule.get("name")) for schedule in schedules),
        zones=tuple(map(str, zones)) if isinstance(zones, list) else (),
        ids=tuple(r.id for r in resources if r.is_made and r.id and not r.external),
        account=_text(stash(ACCOUNT).get("input"))
        or next((m.account for m in machines if m.account), None),
        first_name=_first_name(_text(stash(SCHEDULE_PREFIX).get("output"))),
        others={
            _cluster_name(each): _text(_stash(resources, each.name, ID).get("output"))
            for each in components[1:]
        },
        protected={r.name: r.type for r in resources if r.protect and is_removed_here(r)},
    )


def is_removed_here(resource: Resource) -> bool:
    """Whether a teardown removes it directly, not through Pulumi."""
    return resource.type in MACHINES or resource.type in BUCKETS


def _cluster_name(component: Resource) -> str:
    """The name of a cluster; until 0.1.0 its component had this name."""
    return _text(component.inputs.get("name")) or component.name


def _place(resources: Sequence[Resource], recorded: object) -> RecordedPlace:
    """The recorded place; if an older version recorded none, that of the provider."""
    try:
        place = decode(RecordedPlace, recorded or {})
    except ValueError:
        place = RecordedPlace()
    if place.cloud in CLOUDS:
        return replace(place, cloud=place.cloud if CLOUDS[place.cloud].machines else None)
    provider = next((r for r in resources if r.type in PROVIDERS), None)
    if provider is None:
        return RecordedPlace()
    region, project = (_text(provider.inputs.get(key)) for key in ("region", "project"))
    return RecordedPlace(PROVIDERS[provider.type], region, project)


def _first_name(prefix: str | None) -> str | None:
    """The cluster's name in the names of its schedules, `railhead-NAME-INSTANCE`."""
    return (prefix or "").removeprefix("railhead-") or None


def _stash(resources: Sequence[Resource], cluster: str, name: str) -> Mapping[str, Any]:
    """The outputs of a cluster's stash: what the program stored in the state. Until 0.1.0 its name
    was a constant."""
    stashes = {r.name: r.outputs for r in resources if r.type == STASH}
    names = (f"{cluster}-{name}", FORMER.get(name, name))
    return next((stashes[name] for name in names if name in stashes), {})


def _machine(
    resource: Resource, schedules: Sequence[Mapping[str, Any]] = ()
) -> StateMachine | None:
    """The machine of a resource; None for another resource, and for one that is to be deleted."""
    types = MACHINES.get(resource.type)
    if not types or not types.provider or resource.external or not resource.id:
        return None
    outputs = resource.outputs
    return StateMachine(
        id=resource.id,
        name=_text(outputs.get("name")) or _text(_at(outputs, "tags.Name")) or resource.name,
        zone=_text(_at(outputs, types.zone)),
        address=_text(_at(outputs, types.address)),
        peer_address=_text(_at(outputs, types.peer_address)),
        account=(_text(outputs.get("arn")) or "::::").split(":")[4] or None,
        owner=_text(_at(outputs, types.owner)),
        until=_scheduled(resource.id, schedules) or _after_creation(resource, types),
        urn=resource.urn,
    )


def _scheduled(machine: str, schedules: Sequence[Mapping[str, Any]]) -> str | None:
    """The time of a machine's schedule: the name of the schedule ends with the machine's id."""
    for_machine = (s for s in schedules if str(s.get("name")).endswith(machine))
    expression = str(next(for_machine, {}).get("scheduleExpression"))
    match = re.fullmatch(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)", expression)
    return f"{match[1]}+00:00" if match else None


def _after_creation(resource: Resource, types: StateTypes) -> str | None:
    """The end of the longest time that a machine runs, counted from its creation."""
    try:
        seconds = float(_at(resource.outputs, types.seconds))
        created = datetime.fromisoformat(str(resource.created)[:19]).replace(tzinfo=timezone.utc)
        return (created + timedelta(seconds=seconds)).isoformat()
    except (TypeError, ValueError, OverflowError):
        return None


def _at(value: Any, path: str) -> Any:
    """The value at a path of keys and indexes, such as `interfaces.0.address`; None if there is
    none."""
    for key in path.split("."):
        try:
            value = value[int(key)] if isinstance(value, list) else value[key]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return value


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
