"""What an `up` must leave as it was: machines that were stopped, machines that ran, and deadlines.

For some changes a provider stops a machine and then starts it, even if it was stopped before. If
the cloud refuses the change, the machine stays stopped. A recreated schedule has the time of a new
machine, which may be earlier than the time to which the old one was moved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from datetime import datetime, timezone

from railhead.documents.lazy import dataclass

from ...clouds import base
from ...clouds.base import STOPPED, Deadline
from ...console.output import Reporter
from ...errors import RailheadError
from ...inventory.hosts import Inventory
from .. import power
from ..deadlines import SAME_TIME
from ..stack_machines import StackMachines


@dataclass(frozen=True)
class Before:
    """The state and the deadline of each machine before a change, by the host's name."""

    states: Mapping[str, str] = field(default_factory=dict)
    deadlines: Mapping[str, Deadline] = field(default_factory=dict)
    lost_deadlines: tuple[str, ...] = ()


def read(machines: StackMachines, report: Reporter) -> Before:
    """The machines as their cloud reports them now; empty without an answer. `lost_deadlines`: the
    hosts whose deadline is in Pulumi's state, but not in the cloud."""
    inventory = machines.inventory
    if inventory is None or not inventory.kind.in_cloud:
        return Before()
    schedules = machines.state.schedules
    recorded = {h.name for h in inventory.hosts if any(s.endswith(str(h.id)) for s in schedules)}
    try:
        cloud = base.cloud_of(inventory)
        states = {name: state.state for name, state in cloud.instance_states().items()}
        deadlines = cloud.deadlines()
        lost = [n for n, deadline in deadlines.items() if not deadline.exists and n in recorded]
        return Before(states, deadlines, tuple(lost))
    except RailheadError as error:
        report(f"how the machines are now is not known: {error.message}")
        return Before()


def restore(before: Before, inventory: Inventory, report: Reporter) -> None:
    """Stop what was stopped, start what ran, and move deadlines that are earlier now. A refusal is
    only reported: the next commands show the state."""
    if not before.states:
        return
    try:
        states = base.cloud_of(inventory).instance_states()
        running = [n for n, state in states.items() if state.state not in (*STOPPED, "unknown")]
        stopped = [n for n, state in states.items() if state.state == "stopped"]
        _stop([n for n in running if before.states.get(n) == "stopped"], inventory, report)
        _start([n for n in stopped if before.states.get(n) == "running"], inventory, report)
        _move_back(before, inventory, report)
    except RailheadError as error:
        report(f"not all is as it was before this `up`: {error.message}")


def _stop(names: Collection[str], inventory: Inventory, report: Reporter) -> None:
    if names:
        report(f"stopping {', '.join(names)}, which did not run before this `up`")
        cloud = base.cloud_of(inventory.only(names))
        cloud.stop()
        base.wait_for_state(cloud, STOPPED, report=report)


def _start(names: Collection[str], inventory: Inventory, report: Reporter) -> None:
    if names:
        report(f"starting {', '.join(names)}, which ran before this `up`")
        cloud = base.cloud_of(inventory.only(names))
        cloud.start()
        base.wait_for_state(cloud, ("running",), report=report)


def _move_back(before: Before, inventory: Inventory, report: Reporter) -> None:
    now = datetime.now(timezone.utc)
    for name, deadline in base.cloud_of(inventory).deadlines().items():
        old = before.deadlines.get(name)
        if not old or not old.at or not deadline.at or deadline.fixed:
            continue
        if old.at - deadline.at > SAME_TIME:
            hours = (old.at - now).total_seconds() / 3600
            base.cloud_of(inventory.only([name])).set_deadline(hours)
            report(f"[{name}] its deadline is {old.at:%Y-%m-%d %H:%M} UTC again")


def deadline_error(inventory: Inventory) -> RailheadError | None:
    """The error for running machines that their cloud would never stop."""
    if not inventory.kind.in_cloud:
        return None
    cloud = base.cloud_of(inventory)
    running = {n for n, state in cloud.instance_states().items() if state.state == "running"}
    deadlines = {n: deadline for n, deadline in cloud.deadlines().items() if n in running}
    return power.unarmed(inventory, {n: d for n, d in deadlines.items() if d.state != "armed"})
