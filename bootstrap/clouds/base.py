"""The protocol that every cloud implements: states of instances, start, stop, deadline, costs.

aws, gcp and local implement it; each SDK is imported when its cloud is first used. Instances are
queried by id. Data that the cloud does not have yet counts as "not yet", never as "gone".
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from datetime import datetime, timezone
from functools import partial
from typing import Any, Protocol, TypeVar

from railhead.documents.lazy import dataclass
from railhead.documents.times import shown

from ..console.output import Reporter, print_lines
from ..console.wait import Clock, wait_until
from ..errors import Command, Hint, NoCapacity, RailheadError, UsageError
from ..host.buckets.repeats import outlasting
from ..inventory.hosts import Inventory

T = TypeVar("T")
STATES = ("running", "starting", "stopping", "stopped", "gone", "unknown")
STOPPED = ("stopped", "gone")  # the instance does not run and is not billed by the hour
MISSING, UNKNOWN = "MISSING", "UNKNOWN"  # states of a deadline

SET_PRICE = "pulumi config set price_per_hour USD   # of the whole cluster"
MOST_HOURS = 168.0  # of a deadline
POLL_SECONDS = 5.0
SETTLE_SECONDS = 600.0  # GPU machines take minutes to stop and to start
through_outages = partial(outlasting, report=print_lines)  # for calls on which machines depend


def refuse_hours(hours: float) -> None:
    """UsageError for hours that a cloud's own deadline cannot have."""
    if not 0 < hours <= MOST_HOURS:
        raise UsageError(f"{hours:g} hours: a deadline is more than 0 and at most {MOST_HOURS:g} h")


class Refused(RailheadError):
    """The cloud refused a call; `error_code` is its code: `InsufficientInstanceCapacity`."""

    def __init__(self, message: str, error_code: str, *, hint: Hint | Command | str = "") -> None:
        super().__init__(message, hint=hint)
        self.error_code = error_code


class StockOut(Refused, NoCapacity):
    """The cloud has no room for a machine now."""


class Incomplete(RailheadError):
    """A list lacks the resources of zones that the cloud cannot reach."""


class NoCredentials(UsageError):
    """There are no credentials for a cloud, or its SDK is not installed."""


def unless_refused(codes: Collection[str], call: Callable[[], T]) -> T | None:
    """The result of a call; None if the cloud refuses it with one of these codes."""
    try:
        return call()
    except Refused as refused:
        if refused.error_code in codes:
            return None
        raise


@dataclass(frozen=True)
class SpotOffer:
    """The offer as which a spot machine is sold: its price changes while the machine runs."""

    machine_type: str
    zone: str


@dataclass(frozen=True)
class InstanceState:
    """The state of one instance that the cloud reports; `source` names the API call, `at` its
    time. `serial` identifies the instance: a new one with the same name has another. `certain`: it
    was read on this computer; a cloud may report an older state than it reported before. `created`,
    `started` and `stopped` (the last time of each, seconds since 1970) are the cloud's times, where
    it reports them. `spot`: its offer, if the cloud keeps a history of the price."""

    state: str
    address: str | None
    source: str
    at: str
    reason: str = ""
    port: int | None = None
    serial: str = ""
    certain: bool = False
    created: float | None = None
    started: float | None = None
    stopped: float | None = None
    spot: SpotOffer | None = None


@dataclass(frozen=True)
class Deadline:
    """When one instance stops on its own, as read from what stops it: its cloud, or its own timer.
    `state` is armed, past, UNKNOWN, or MISSING (also if it cannot succeed: see `reason`).

    `at` None: the deadline is a duration (in `reason`) from the instance's next start. `target` is
    what it will do: `stops i-0123`. `fixed`: it cannot be moved while the instance runs. `exists`:
    if it is false, there is nothing to move, and an `up` creates it.
    """

    kind: str
    at: datetime | None
    state: str
    source: str
    reason: str = ""
    target: str = ""
    fixed: bool = False
    exists: bool = True


def most_urgent(deadlines: Collection[Deadline]) -> Deadline | None:
    """The deadline to act on: one that is not armed, otherwise the earliest; None without any. A
    deadline without a time comes last: it begins at a later start."""
    latest = datetime.max.replace(tzinfo=timezone.utc)
    by_urgency = sorted(deadlines, key=lambda d: (d.state == "armed", d.at or latest))
    return by_urgency[0] if by_urgency else None


@dataclass(frozen=True)
class Cost:
    """A cost that continues while the instances are stopped: `amount` in USD per day or month,
    None if it is unknown. `source` names the price list and its date."""

    description: str
    amount: float | None
    command: Command
    per: str = "day"
    source: str = ""


class HasStates(Protocol):
    """Instances whose states can be queried."""

    def instance_states(self) -> dict[str, InstanceState]:
        """The state of every host by its name, in the inventory's order."""


class Cloud(HasStates, Protocol):
    """The instances of one inventory. Every method queries the cloud; nothing is cached."""

    def start(self) -> None:
        """Start every instance that does not run; returns when the cloud has accepted it."""

    def stop(self) -> None:
        """Stop every instance that is not stopped; returns when the cloud has accepted it."""

    def terminate(self) -> None:
        """Terminate every instance, with its disk; returns when the cloud has accepted it."""

    def cannot_stop(self) -> list[str]:
        """The names of running hosts that the cloud can only terminate: one-time spot on AWS."""

    def deadlines(self) -> dict[str, Deadline]:
        """The cloud's own deadline of each instance, by host name; empty if the cloud has none
        (local hosts)."""

    def set_deadline(self, hours: float) -> None:
        """Set the cloud's own deadline of every instance to this many hours from now."""

    def costs(self) -> list[Cost]:
        """The costs that continue while the instances are stopped."""

    def account(self) -> str:
        """The owner of the instances: `account 123456789012`, `project p-1`."""

    def host_keys(self) -> dict[str, tuple[str, ...]]:
        """The public host keys that the cloud has from its instances, by host name; hosts whose
        keys are not there yet are missing."""

    def allowed_cidrs(self) -> tuple[str, ...]:
        """The networks from which the firewall allows SSH to the chief: 203.0.113.7/32."""


def cloud_of(inventory: Inventory) -> Cloud:
    """The cloud of the inventory's hosts. UsageError: its hosts are ad hoc, or the cloud's SDK is
    not installed."""
    if inventory.kind.instances:
        cloud: Cloud = load(inventory.kind.instances)(inventory)
        return cloud
    raise UsageError(
        f"the hosts of {inventory.name} are ad hoc (given by --hosts, not created by a stack): "
        "Railhead neither starts nor stops them",
        hint="--stack NAME   # for the machines of a stack",
    )


def load(name: str) -> Any:
    """The object "module:name" of the registry; imported on use, because SDKs load slowly."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def call(name: str | None, *arguments: Any, otherwise: T) -> T:
    """The result of a function of the registry; `otherwise` if a cloud has none."""
    result: T = load(name)(*arguments) if name else otherwise
    return result


@through_outages()
def wait_for_state(
    cloud: HasStates,
    targets: Collection[str],
    *,
    report: Reporter = lambda _: None,
    limit: float = SETTLE_SECONDS,
    clock: Clock | None = None,
) -> dict[str, InstanceState]:
    """Wait until two queries in a row show every instance in a wanted state, or one query if its
    states are certain; the last states. The wait also ends, without an error, when `limit` seconds
    have passed, or when an instance that should run began to start and then stopped. `report` gets
    a line whenever the state of an instance has changed."""
    states: dict[str, InstanceState] = {}
    started: set[str] = set()
    reached = 0  # queries in a row with every instance in a wanted state

    def settled() -> bool:
        nonlocal states, reached
        before, states = describe_states(states), cloud.instance_states()
        if (line := describe_states(states)) not in (before, ""):
            report(line)
        reached = reached + 1 if all(s.state in targets for s in states.values()) else 0
        started.update(name for name, s in states.items() if s.state == "starting")
        fell_back = "running" in targets and any(states[name].state in STOPPED for name in started)
        needed = 1 if all(s.certain for s in states.values()) else 2
        return reached >= needed or fell_back

    wait_until(settled, seconds=limit, every=POLL_SECONDS, clock=clock)
    return states


def describe_states(instance_states: dict[str, InstanceState]) -> str:
    """One line with the hosts in each state: `h1, h2 running; h3 stopped`."""
    return "; ".join(
        f"{', '.join(n for n, s in instance_states.items() if s.state == state)} {state}"
        for state in STATES
        if any(s.state == state for s in instance_states.values())
    )


def start_later(inventory: Inventory) -> Hint:
    """The next command when a cloud has no such machine free now."""
    option = inventory.option
    return Hint(
        Command("start", **inventory.target),
        "   # later; or in another zone, with new machines: "
        f"pulumi config set{option} zones ZONE && pulumi up{option}",
    )


def utc_now() -> str:
    """The time in UTC, as receipts and states show it."""
    return shown(datetime.now(timezone.utc))
