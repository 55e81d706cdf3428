"""When the machines of each stack existed and ran: ~/.railhead/costs/ID.json.

The times are those of the cloud, in seconds since 1970. They are noted whenever a command reads the
states of machines, and stay when a stack is destroyed. Where a machine stopped while no command
looked, and the cloud does not say when, the bill is a range.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path

from railhead.documents.cluster import PricePart
from railhead.documents.codec import decode, encode
from railhead.documents.lazy import dataclass
from railhead.documents.names import is_name

from ..clouds.base import STOPPED, InstanceState, SpotOffer
from ..inventory import local_state, stack_config
from ..inventory.files import atomic_write
from ..inventory.hosts import Inventory

GONE = InstanceState("gone", None, "the machines that the stack has now", "")


@dataclass(frozen=True)
class Start:
    """One start of a machine. `seen` is when it was last seen running, `until` when it stopped;
    None while it runs. `unsure`: it stopped between the two, and the cloud does not say when.
    `parts`: what the machine was billed for then."""

    at: float
    seen: float
    until: float | None = None
    unsure: bool = False
    parts: tuple[PricePart, ...] = ()

    @property
    def has_prices(self) -> bool:
        """Whether each part has a price."""
        return bool(self.parts) and all(part.usd is not None for part in self.parts)


@dataclass(frozen=True)
class BilledMachine:
    """A machine. Its disk exists from `created` to `deleted`. `parts`: what it is billed for now.
    `spot`: as its cloud has reported it."""

    name: str
    created: float
    deleted: float | None = None
    starts: tuple[Start, ...] = ()
    parts: tuple[PricePart, ...] = ()
    spot: SpotOffer | None = None

    def priced(self, parts: tuple[PricePart, ...]) -> BilledMachine:
        """At these prices from now on; a start keeps its own, where it has any for each part."""
        starts = tuple(s if s.has_prices else replace(s, parts=parts) for s in self.starts)
        return replace(self, parts=parts, starts=starts)

    def not_read(self, now: float) -> BilledMachine:
        """As its cloud does not answer: if it runs, nobody knows since when it was seen last."""
        last = self.starts[-1] if self.starts else None
        if last is None or last.until is not None:
            return self
        return replace(self, starts=(*self.starts[:-1], replace(last, until=now, unsure=True)))


@dataclass(frozen=True)
class Ledger:
    """The machines of a stack by their ids. `owner`: who pays, as the stack's tag has it."""

    cluster: str
    stack: str | None
    cloud: str
    owner: str | None = None
    machines: Mapping[str, BilledMachine] = field(default_factory=dict)
    region: str | None = None


def observed(
    before: BilledMachine | None, name: str, state: InstanceState, now: float
) -> BilledMachine | None:
    """A machine after its cloud has reported its state; None for one that was never seen. Pure."""
    if before is None and state.state in ("gone", "unknown"):
        return None
    since = state.started or now
    machine = before or BilledMachine(name, state.created or since)
    machine = replace(machine, spot=state.spot or machine.spot)
    if state.state == "unknown":
        return machine
    starts = _with_start(machine.starts, state, now)
    if state.state in STOPPED:
        starts = _ended(starts, state.stopped, now)
    if state.state == "running":
        return replace(machine, starts=starts, deleted=None)
    if state.state != "gone" or machine.deleted is not None:
        return replace(machine, starts=starts)
    return replace(machine, starts=starts, deleted=now if state.stopped is None else state.stopped)


def _with_start(starts: tuple[Start, ...], state: InstanceState, now: float) -> tuple[Start, ...]:
    """The starts with the one that the cloud reports. One before it that nobody saw end has ended
    meanwhile."""
    last = starts[-1] if starts else None
    if state.started is None or (last and state.started <= last.at):
        runs = last and last.until is None and state.state not in STOPPED
        if last and (runs or (state.state == "running" and state.started == last.at)):
            return (*starts[:-1], replace(last, seen=now, until=None, unsure=False))
        return starts
    if last and last.until is None:
        known = state.stopped is not None and last.at <= state.stopped <= state.started
        until = state.stopped if known else state.started
        starts = (*starts[:-1], replace(last, until=until, unsure=not known))
    return (*starts, Start(state.started, now))


def _ended(starts: tuple[Start, ...], stopped: float | None, now: float) -> tuple[Start, ...]:
    """The starts, the last one ended: when the cloud says, otherwise between the last two looks."""
    last = starts[-1] if starts else None
    if last is None or last.until is not None:
        return starts
    known = stopped is not None and stopped >= last.at
    until = stopped if known else now
    return (*starts[:-1], replace(last, until=until, unsure=not known))


def _replaced(
    machines: Mapping[str, BilledMachine],
    inventory: Inventory,
    states: Mapping[str, InstanceState],
    now: float,
) -> dict[str, BilledMachine]:
    """The machines that a stack has no more, as they have ended meanwhile: there is another one of
    the same name, or the whole stack was read. An inventory whose machines are gone ends no
    others: it may be an old one."""
    there = {name for name, state in states.items() if state.state not in ("gone", "unknown")}
    ids = {host.id for host in inventory.hosts}
    whole = bool(there) and not inventory.is_part
    return {
        machine_id: observed(machine, machine.name, GONE, now) or machine
        for machine_id, machine in machines.items()
        if machine_id not in ids and machine.deleted is None and (whole or machine.name in there)
    }


def note(
    inventory: Inventory, states: Mapping[str, InstanceState], now: float | None = None
) -> Ledger | None:
    """Record the states of a stack's machines; its ledger. None for hosts of no cloud."""
    name = inventory.cluster_id or inventory.name
    if not inventory.kind.in_cloud or not is_name(name):
        return None
    now = time.time() if now is None else now
    before = find(name) or Ledger(inventory.name, inventory.stack, inventory.cloud)
    machines = dict(before.machines)
    parts = inventory.price.parts if inventory.price else ()
    for host in inventory.hosts:
        if host.id and host.name in states:
            known = machines.get(host.id)
            if seen := observed(known, host.name, states[host.name], now):
                machines[host.id] = seen.priced(parts or seen.parts)
    machines |= _replaced(machines, inventory, states, now)
    config = stack_config.read(inventory.stack) if inventory.stack and not before.owner else None
    owner = config.owner if config else before.owner
    stack = inventory.stack or before.stack
    region = inventory.region or before.region
    after = replace(before, stack=stack, owner=owner, machines=machines, region=region)
    if machines and after != before:
        atomic_write(_path(name), json.dumps(encode(after), indent=1) + "\n")
    return after


def find(name: str) -> Ledger | None:
    """The ledger of a stack by its id; None where there is none, or it is damaged."""
    try:
        return decode(Ledger, json.loads(_path(name).read_text()))
    except (OSError, ValueError, RecursionError):
        return None


def every() -> dict[str, Ledger]:
    """All ledgers that can be read, by the ids of their stacks."""
    paths = sorted((local_state.home() / "costs").glob("*.json"))
    return {path.stem: ledger for path in paths if (ledger := find(path.stem))}


def _path(name: str) -> Path:
    return local_state.home() / "costs" / f"{name}.json"
