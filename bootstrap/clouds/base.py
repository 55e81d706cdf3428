"""What a cloud says of the machines of a cluster, and how it starts and stops them.

One small protocol; aws, gcp and local speak it, each with its SDK imported when it is asked for.
A machine is asked for by its id. A field that is not there yet is "not yet", never "gone".
"""

from __future__ import annotations

import importlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Protocol

from bootstrap.console.output import Reporter
from bootstrap.console.wait import Clock
from bootstrap.errors import RailheadError, UsageError
from bootstrap.inventory.hosts import Inventory

STATES = ("running", "starting", "stopping", "stopped", "gone", "unknown")
STOPPED = ("stopped", "gone")  # nothing of the machine itself runs, or can be billed by the hour
MISSING = "MISSING"

POLL_SECONDS = 5.0
SETTLE_SECONDS = 600.0  # GPU machines take minutes to stop and to start
CONFIRM_SECONDS = 5.0  # a machine that is said to be stopped is looked at once more


class Refused(RailheadError):
    """The cloud refused a call; `error_code` is its code: `InsufficientInstanceCapacity`."""

    def __init__(self, message: str, error_code: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.error_code = error_code


@dataclass(frozen=True)
class InstanceState:
    """What the cloud says of one machine. `serial` is its own number for this very machine: one
    that was made anew under the same name has another."""

    state: str
    address: str | None
    source: str
    at: str
    reason: str = ""
    port: int | None = None
    serial: str = ""


@dataclass(frozen=True)
class Deadline:
    """When the cloud stops the machines by itself, read back from it: armed, MISSING or past.

    `at` None: it has a length (`reason` says which) and begins when the machines start."""

    kind: str
    at: datetime | None
    state: str
    source: str
    reason: str = ""


@dataclass(frozen=True)
class Cost:
    """What still bills when the machines are stopped: `amount` USD each day or month, None where
    that is unknown. `source` says whose price it is, and of when."""

    what: str
    amount: float | None
    command: str
    per: str = "day"
    source: str = ""


class Cloud(Protocol):
    """The machines of one inventory, as their cloud has them. Every call asks the cloud anew."""

    def instance_states(self) -> dict[str, InstanceState]:
        """Every host's state by its name, in the inventory's order."""

    def start(self) -> None:
        """Start every machine that does not run; returns when the cloud has accepted it."""

    def stop(self) -> None:
        """Stop every machine that is not stopped; returns when the cloud has accepted it."""

    def deadline(self) -> Deadline | None:
        """The cloud's own deadline; None where the stack has none (local hosts)."""

    def set_deadline(self, hours: float) -> None:
        """Set the cloud's own deadline to so many hours from now."""

    def costs(self) -> list[Cost]:
        """What bills although the machines are stopped."""

    def account(self) -> str:
        """Whose machines they are: `account 123456789012`, `project p-1`."""

    def host_keys(self) -> dict[str, tuple[str, ...]]:
        """The public host keys that machines have shown their cloud, by host name; a host whose
        keys are not there yet is left out."""

    def allowed_cidrs(self) -> tuple[str, ...]:
        """The networks from which its firewall lets ssh in to the chief: 203.0.113.7/32."""


def cloud_of(inventory: Inventory) -> Cloud:
    """The cloud that the inventory's machines are in.

    Raises:
        UsageError: its hosts are ad hoc, or the cloud's SDK is not installed.
    """
    if inventory.kind.instances:
        cloud: Cloud = load(inventory.kind.instances)(inventory)
        return cloud
    raise UsageError(
        f"the machines of {inventory.name} were only named by --hosts: "
        "they are other people's, and are neither started nor stopped from here",
        hint="--stack NAME   # for the machines of a stack",
    )


def load(name: str) -> Any:
    """What a "module:name" of the registry names; imported now, because SDKs are slow to load."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def wait_for_state(
    cloud: Cloud,
    wanted: Collection[str],
    *,
    report: Reporter = lambda _: None,
    limit: float = SETTLE_SECONDS,
    clock: Clock | None = None,
) -> dict[str, InstanceState]:
    """Wait until the cloud says of every machine that it is in one of the wanted states, and says
    so once more a moment later; the last answer, whether it came to that, the limit is over, or a
    machine that began to start is at rest again.

    Args:
        report: gets a line whenever a machine's state has changed.
    """
    clock = clock or Clock()
    end, shown, calm = clock.now() + limit, "", False
    begun: set[str] = set()
    while True:
        instance_states = cloud.instance_states()
        if (line := describe_states(instance_states)) != shown:
            report(line)
            shown = line
        before, calm = calm, all(s.state in wanted for s in instance_states.values())
        begun |= {n for n, s in instance_states.items() if s.state == "starting"}
        fell = any(instance_states[n].state in STOPPED for n in begun) and "running" in wanted
        if (before and calm) or fell or clock.now() >= end:
            return instance_states
        clock.sleep(CONFIRM_SECONDS if calm else POLL_SECONDS)


def describe_states(instance_states: dict[str, InstanceState]) -> str:
    """One line: which hosts are in which state."""
    return "; ".join(
        f"{', '.join(n for n, s in instance_states.items() if s.state == state)} {state}"
        for state in STATES
        if any(s.state == state for s in instance_states.values())
    )


def utc_now() -> str:
    """Now, as receipts and standings write it."""
    return f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
