"""The machines of a stack: where they are now, and starting and stopping them.

Addresses and states come from the cloud, asked by the machines' ids, never from Pulumi's state.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from paramiko.ssh_exception import AuthenticationException, SSHException

from bootstrap.clouds import base
from bootstrap.clouds.base import MISSING, STOPPED, Cloud, Deadline, InstanceState
from bootstrap.console.output import Reporter
from bootstrap.console.text import duration
from bootstrap.console.wait import Clock
from bootstrap.errors import HostsFailed, HostsNotReady, RailheadError, UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.lifecycle import cloud_host_keys, key_rotation, reach, stop_policy
from bootstrap.lifecycle.receipt import price
from bootstrap.ssh import connect
from bootstrap.ssh.host_keys import ChangedHostKey, UnknownHostKey

SSH_SECONDS = 300.0  # from "running" until sshd answers and knows the user
DEFAULT_HOURS = 8.0


@dataclass(frozen=True)
class ClusterStatus:
    """An inventory with the addresses that its cloud tells now, and what it says of each machine.

    Machines that were only named have no standings: nobody can be asked.
    """

    inventory: Inventory
    instance_states: Mapping[str, InstanceState]
    place: str

    @property
    def not_running(self) -> list[str]:
        """The hosts that do not run."""
        return [name for name, s in self.instance_states.items() if s.state != "running"]


def look(inventory: Inventory) -> ClusterStatus:
    """Where the machines are and how they stand: asked of their cloud, if a stack made them."""
    if not inventory.is_managed:
        return ClusterStatus(inventory, {}, inventory.cloud)
    return _ask(inventory, base.cloud_of(inventory))


def _ask(inventory: Inventory, asked: Cloud) -> ClusterStatus:
    instance_states = asked.instance_states()
    hosts = tuple(_moved(h, instance_states[h.name]) for h in inventory.hosts)
    words = [inventory.cloud, "" if inventory.kind.this_machine else asked.account()]
    words += [inventory.region or "", f"stack {inventory.stack}" if inventory.stack else ""]
    return ClusterStatus(
        replace(inventory, hosts=hosts), instance_states, ", ".join(filter(None, words))
    )


def _moved(host: Host, standing: InstanceState) -> Host:
    """The host where it is now; by its name where it has no address, which another may have."""
    address = standing.address or host.name
    return replace(host, address=address, port=standing.port or host.port)


def ensure_running(seen: ClusterStatus, report: Reporter, *, start_them: bool = False) -> Inventory:
    """The inventory, once all its machines run and their keys are pinned.

    Raises:
        UsageError: some do not run, and nobody agreed to start them.
    """
    if not seen.instance_states:
        return seen.inventory
    if seen.not_running:
        _may_start(seen, start_them)
        return start(seen.inventory, report)
    pin_host_keys(seen, report)
    return seen.inventory


def pin_host_keys(seen: ClusterStatus, report: Reporter) -> None:
    """Pin the keys of the machines that run, where that was not done before; injected ones are
    changed at once."""
    if seen.instance_states:
        _pin_host_keys(seen, base.cloud_of(seen.inventory), report, Clock())


def _pin_host_keys(seen: ClusterStatus, asked: Cloud, report: Reporter, clock: Clock) -> None:
    cloud_host_keys.pin(seen.inventory, seen.instance_states, asked, report=report, clock=clock)
    if some := key_rotation.due(seen.inventory):
        _answers(some, report, clock)
        key_rotation.rotate(some, report, clock=clock)


def _may_start(seen: ClusterStatus, start_them: bool) -> None:
    _refuse_lost(seen)
    told = base.describe_states(dict(seen.instance_states))
    if start_them:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            f"not all machines run: {told}", hint="fab start   # or: fab train --start"
        )
    cost = stop_policy.price(seen.inventory)
    if input(f"not all machines run: {told}\nStart them{cost}? [y/N] ").strip().lower() != "y":
        raise UsageError("the machines were not started", hint="fab start")


def _refuse_lost(seen: ClusterStatus) -> None:
    """UsageError for machines that are gone, or that the cloud does not show us."""
    for state, hint in (("gone", "pulumi up   # makes them anew"), ("unknown", "fab status")):
        lost = {n: s for n, s in seen.instance_states.items() if s.state == state}
        if lost:
            told = {
                n: f"{s.state}, says {s.source}: {s.reason}".rstrip(": ") for n, s in lost.items()
            }
            every = {n: told.get(n, s.state) for n, s in seen.instance_states.items()}
            raise HostsNotReady(f"{', '.join(lost)}: {state}", every, hint=hint)


def start(
    inventory: Inventory,
    report: Reporter,
    *,
    hours: float | None = None,
    clock: Clock | None = None,
) -> Inventory:
    """Arm the cloud's own deadline, start the machines, and wait until ssh answers on all.

    Raises:
        RailheadError: the cloud cannot start them; what had started is stopped again.
        HostsFailed: not all run, or answer, within the time.
    """
    clock = clock or Clock()
    asked = base.cloud_of(inventory)
    seen = _settled_first(inventory, asked, report, clock)
    _refuse_lost(seen)
    _arm(inventory, asked, hours, report)
    if seen.not_running:
        _start(asked, seen, report, clock)
    now = _found(inventory, asked, clock)
    _pin_host_keys(now, asked, report, clock)
    _answers(now.inventory, report, clock)
    local_state.save_cluster(now.inventory)
    return now.inventory


def _settled_first(
    inventory: Inventory, asked: Cloud, report: Reporter, clock: Clock
) -> ClusterStatus:
    """A machine that is still stopping cannot be started: wait for it."""
    seen = _ask(inventory, asked)
    if any(s.state == "stopping" for s in seen.instance_states.values()):
        states = ("running", "starting", *STOPPED)
        base.wait_for_state(asked, states, report=report, clock=clock)
        seen = _ask(inventory, asked)
    return seen


def _arm(inventory: Inventory, asked: Cloud, hours: float | None, report: Reporter) -> None:
    """A deadline that begins with each start needs no arming, unless it is to be another."""
    deadline = asked.deadline()
    if deadline is None:
        return
    if hours is not None or deadline.state != "armed" or deadline.at is not None:
        asked.set_deadline(hours or default_hours(inventory))
    if (armed := asked.deadline()) is not None:
        report(told(armed))


def default_hours(inventory: Inventory) -> float:
    """The length of the deadlines that the stack was made with."""
    seconds = [d["seconds"] for d in inventory.deadlines if "seconds" in d]
    return float(min(seconds)) / 3600 if seconds else DEFAULT_HOURS


def _start(asked: Cloud, seen: ClusterStatus, report: Reporter, clock: Clock) -> None:
    """Start them, and wait; if one cannot be, those that were started with it stop again."""
    report(f"starting {', '.join(seen.not_running)}{stop_policy.price(seen.inventory)}")
    try:
        asked.start()
        said = base.wait_for_state(asked, ("running",), report=report, clock=clock)
    except RailheadError:
        _undo(asked, seen, report)
        raise
    if any(s.state != "running" for s in said.values()):
        _undo(asked, seen, report)
        every = {n: f"{s.state} {s.reason}".strip() for n, s in said.items()}
        raise HostsFailed(
            "not all machines came up; a machine that falls back to stopped found no room",
            every,
            hint="fab start   # later",
        )


def _undo(asked: Cloud, seen: ClusterStatus, report: Reporter) -> None:
    """Stop what was started in vain, unless some ran before: those may be somebody's."""
    if len(seen.not_running) == len(seen.instance_states):
        report("stopping again what was started")
        asked.stop()


def _found(inventory: Inventory, asked: Cloud, clock: Clock) -> ClusterStatus:
    """The machines with their addresses; an address that is not there yet is waited for."""
    end = clock.now() + 120
    while True:
        seen = _ask(inventory, asked)
        if all(s.address for s in seen.instance_states.values()) or clock.now() >= end:
            return seen
        clock.sleep(base.POLL_SECONDS)


def _answers(inventory: Inventory, report: Reporter, clock: Clock) -> None:
    """Wait until every host lets us in; a changed key is no matter of waiting."""
    end, told_once = clock.now() + SSH_SECONDS, False
    while True:
        opened, failed = connect.open_sessions(inventory)
        for session in opened.values():
            session.close()
        if not failed:
            return
        if clock.now() >= end or not all(_may_pass(e) for e in failed.values()):
            raise reach.not_reached("the machines run, and do not let us in", inventory, failed)
        if not told_once:
            report(f"waiting for ssh on {', '.join(failed)}")
            told_once = True
        clock.sleep(base.POLL_SECONDS)


def _may_pass(error: Exception) -> bool:
    """Whether an error is one of a machine that still boots, which lets nobody in for a while."""
    if isinstance(error, (UnknownHostKey, ChangedHostKey)):
        return False
    return isinstance(error, (OSError, EOFError, AuthenticationException, SSHException))


def stop(inventory: Inventory, report: Reporter, *, clock: Clock | None = None) -> None:
    """Stop the machines and wait until the cloud says so; HostsFailed if it does not."""
    asked = base.cloud_of(inventory)
    asked.stop()
    stop_policy.wait(asked, report, clock=clock)
    for cost in asked.costs():
        report(f"still bills: {cost.what}: {price(cost)}; {cost.command} ends it")


def extend(inventory: Inventory, hours: float, report: Reporter) -> None:
    """Move the cloud's own deadline of machines that may be running."""
    asked = base.cloud_of(inventory)
    asked.set_deadline(hours)
    armed = asked.deadline()
    report(told(armed) if armed else "these machines have no deadline of a cloud")


def told(deadline: Deadline, now: datetime | None = None) -> str:
    """A deadline in words, with who said so."""
    why = f": {deadline.reason}" if deadline.reason else ""
    if deadline.at is None:
        return f"deadline {deadline.kind}: {deadline.state}{why} ({deadline.source})"
    left = (deadline.at - (now or datetime.now(timezone.utc))).total_seconds()
    when = f"{deadline.at:%Y-%m-%d %H:%M} UTC"
    when += f", in {duration(left)}" if left > 0 else ""
    return f"deadline {deadline.kind}: {deadline.state}, {when}{why} ({deadline.source})"


def print_status(seen: ClusterStatus, report: Reporter) -> RailheadError | None:
    """Print how each machine stands, the cloud's deadline and what the machines cost; returns the
    error to end with, when machines run and nothing of the cloud would ever stop them."""
    for name, s in seen.instance_states.items():
        why = f"; {s.reason}" if s.reason else ""
        report(f"[{name}] {s.state}{why} (says {s.source}, {s.at})")
    deadline = base.cloud_of(seen.inventory).deadline()
    if deadline:
        report(told(deadline))
    some = len(seen.not_running) < len(seen.instance_states)
    if price := stop_policy.price(seen.inventory):
        report(f"cost: {price[2:]} when all run" + ("" if some else "; none runs now"))
    if not deadline or (deadline.state != MISSING and (deadline.state == "armed" or not some)):
        return None
    return RailheadError(
        f"the cloud's own deadline is {deadline.state}: nothing of it stops these machines",
        hint="fab extend --hours 8   # arms it anew",
    )
