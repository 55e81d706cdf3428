"""What Pulumi's state says of a stack: its outputs, its cloud, its machines and its id. Pure.

The state has a machine as soon as its cloud has confirmed it, also where an `up` broke off before
the stack had outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bootstrap.inventory.clouds import CLOUDS, STATE_TYPES

ROOT = "pulumi:pulumi:Stack"
STASH = "pulumi:index:Stash"
ID, PRICE = "cluster-id", "price-per-machine"  # the names of the stashes; stacks/ makes them
COMPONENT = "railhead:"
PROVIDERS = {k.state.provider: name for name, k in CLOUDS.items() if k.state and k.state.provider}
BUCKETS = {k.state.bucket: k.scheme for k in CLOUDS.values() if k.state and k.state.bucket}
SCHEDULES = {types.schedule for types in STATE_TYPES if types.schedule}
MACHINES = {types.machine: types for types in STATE_TYPES}

Resource = Mapping[str, Any]


@dataclass(frozen=True)
class StateMachine:
    """A machine in Pulumi's state: `id` as in the cluster document, `account` of its ARN."""

    id: str
    name: str
    zone: str | None
    address: str | None
    peer_address: str | None
    account: str | None = None


@dataclass(frozen=True)
class StackState:
    """A stack's state. `document` is its output `cluster`, None where no `up` came to its end.

    `price` is that of one machine, as `price` in the cluster document. `kinds` are the types of
    all resources except Pulumi's own. `schedules` are the names of the deadlines that
    are resources of their own.
    """

    stack: str
    document: Mapping[str, Any] | None
    cluster: str | None
    cluster_id: str | None
    cloud: str | None
    region: str | None
    project: str | None
    bucket: str | None
    price: Mapping[str, Any] | None
    machines: tuple[StateMachine, ...]
    kinds: tuple[str, ...]
    schedules: tuple[str, ...] = ()

    @property
    def account(self) -> str | None:
        """The AWS account of its machines, where the state has machines."""
        return next((m.account for m in self.machines if m.account), None)


def read_state(stack: str, deployment: Mapping[str, Any]) -> StackState:
    """The state of `stack` from `deployment` of `pulumi stack export`."""
    resources: Sequence[Resource] = deployment.get("resources") or ()
    provider = next((r for r in resources if r["type"] in PROVIDERS), None)
    settings = _values(provider, "inputs")
    outputs = next((_values(r, "outputs") for r in resources if r["type"] == ROOT), {})
    component = next((r for r in resources if r["type"].startswith(COMPONENT)), None)
    document = outputs.get("cluster")
    return StackState(
        stack=stack,
        document=document if isinstance(document, Mapping) else None,
        cluster=_name(component) if component else None,
        cluster_id=_text(_stash(resources, ID).get("output")),
        cloud=PROVIDERS[provider["type"]] if provider else None,
        region=_text(settings.get("region")),
        project=_text(settings.get("project")),
        bucket=next((_bucket(r) for r in resources if r["type"] in BUCKETS), None),
        price=_object(_stash(resources, PRICE).get("input")),
        machines=tuple(found for r in resources if (found := _machine(r))),
        kinds=tuple(r["type"] for r in resources if _is_made(r)),
        schedules=tuple(
            str(_values(r, "inputs").get("name")) for r in resources if r["type"] in SCHEDULES
        ),
    )


def _is_made(resource: Resource) -> bool:
    return bool(resource.get("custom")) and not resource["type"].startswith("pulumi:")


def _stash(resources: Sequence[Resource], name: str) -> Mapping[str, Any]:
    """The outputs of the stash of this name, which has what the program stored in the state."""
    found = (r for r in resources if r["type"] == STASH and _name(r) == name)
    return next((_values(r, "outputs") for r in found), {})


def _machine(resource: Resource) -> StateMachine | None:
    """The machine of a resource; None for another resource, and for one that is to be deleted."""
    types = MACHINES.get(resource["type"])
    if not types or not types.provider or resource.get("external") or not resource.get("id"):
        return None
    made = _values(resource, "outputs")
    return StateMachine(
        id=resource["id"],
        name=_text(made.get("name")) or _name(resource),
        zone=_text(_at(made, types.zone)),
        address=_text(_at(made, types.address)),
        peer_address=_text(_at(made, types.peer_address)),
        account=(_text(made.get("arn")) or "::::").split(":")[4] or None,
    )


def _at(value: Any, path: str) -> Any:
    """The value at a path of keys and indexes, such as `interfaces.0.address`; None if there is
    none."""
    for key in path.split("."):
        try:
            value = value[int(key)] if isinstance(value, list) else value[key]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return value


def _bucket(resource: Resource) -> str:
    return f"{BUCKETS[resource['type']]}://{resource.get('id')}"


def _name(resource: Resource) -> str:
    return str(resource["urn"]).rpartition("::")[2]


def _values(resource: Resource | None, which: str) -> Mapping[str, Any]:
    found = (resource or {}).get(which)
    return found if isinstance(found, Mapping) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _object(value: object) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) and value else None
