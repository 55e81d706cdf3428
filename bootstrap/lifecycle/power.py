"""Starts the machines of a stack, and reads their states and addresses.

States and addresses are read from the cloud by machine id, never from Pulumi's state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from math import floor
from typing import TYPE_CHECKING

from paramiko.ssh_exception import AuthenticationException, SSHException

from railhead.documents.lazy import dataclass

from ..clouds import base, bucket
from ..clouds.base import MISSING, STOPPED, Cloud, Deadline, InstanceState
from ..console.output import Reporter, confirm, print_result
from ..console.text import duration
from ..console.wait import Clock, wait_until
from ..errors import (
    Command,
    Hint,
    HostsFailed,
    HostsNotReady,
    NoCapacity,
    RailheadError,
    UsageError,
)
from ..inventory import local_state, stack_records
from ..inventory.hosts import Host, Inventory
from ..inventory.stack_records import KnownMachine
from ..ssh import connect
from ..ssh.connect import Sessions
from ..ssh.host_keys import ChangedHostKey, UnknownHostKey
from . import cloud_host_keys, deadlines, key_rotation, reach, stack_machines, stop_policy
from .cloud_host_keys import HostKeyStore
from .deadlines import NewDeadline

if TYPE_CHECKING:
    from ..costs.ledger import Ledger

SSH_SECONDS = 300.0  # from "running" until sshd answers and accepts the user
ADDRESS_SECONDS = 120.0
NO_LOGIN = "the machines run, but refuse the login"


@dataclass(frozen=True)
class ClusterStatus:
    """An inventory with its current addresses, and the state of each machine in its cloud. Ad-hoc
    hosts (given by --hosts) have no instance states: no cloud manages them."""

    inventory: Inventory
    instance_states: Mapping[str, InstanceState]
    place: str

    @property
    def not_running(self) -> list[str]:
        """The names of the hosts that are not running."""
        return [name for name, s in self.instance_states.items() if s.state != "running"]


def cluster_status(inventory: Inventory) -> ClusterStatus:
    """The current addresses and states of machines that a stack or `fab demo` created."""
    if inventory.kind.instances is None:
        return ClusterStatus(inventory, {}, inventory.cloud)
    return _query(inventory, base.cloud_of(inventory))


def _query(inventory: Inventory, cloud: Cloud) -> ClusterStatus:
    instance_states = cloud.instance_states()
    _noted(inventory, instance_states)
    hosts = tuple(_at_current_address(h, instance_states[h.name]) for h in inventory.hosts)
    parts = [inventory.cloud, "" if inventory.kind.this_machine else cloud.account()]
    parts += [inventory.region or "", f"stack {inventory.stack}" if inventory.stack else ""]
    return ClusterStatus(
        replace(inventory, hosts=hosts), instance_states, ", ".join(filter(None, parts))
    )


def _noted(inventory: Inventory, states: Mapping[str, InstanceState]) -> Ledger | None:
    """What the machines have been billed for, updated with these states; None for hosts without a
    cloud."""
    if not inventory.kind.in_cloud:
        return None
    from ..costs import ledger  # imported late, like all code about prices: most hosts are free

    return ledger.note(inventory, states)


def _at_current_address(host: Host, state: InstanceState) -> Host:
    """The host with its current address. Without one, its name becomes the address: another machine
    may have its last address now."""
    address = state.address or host.name
    return replace(host, address=address, port=state.port or host.port)


def ensure_running(
    status: ClusterStatus,
    report: Reporter,
    *,
    start_them: bool = False,
    clock: Clock | None = None,
    whole: Inventory | None = None,
) -> Inventory:
    """Return the inventory when all its machines run and their keys are pinned. `whole`: as in
    `start`. UsageError: some do not run, and the user did not agree to start them."""
    if not status.instance_states:
        return status.inventory
    if status.not_running:
        _confirm_start(status, start_them)
        return start(status.inventory, report, clock=clock, whole=whole)
    pin_host_keys(status, report, clock=clock)
    return status.inventory


def of_now(inventory: Inventory, report: Reporter) -> Inventory:
    """The inventory for the next of several runs: a machine that `fab up --replace` has recreated
    meanwhile has its current id and address."""
    now = stack_machines.of_now(inventory, report)
    if now is inventory:
        return inventory
    status = cluster_status(now)
    pin_host_keys(status, report)
    return status.inventory


@contextmanager
def chief_started(
    status: ClusterStatus, report: Reporter, *, clock: Clock | None = None
) -> Iterator[Inventory]:
    """The inventory of the chief, which is started if it does not run; other stopped machines stay
    stopped. After an error, print, also with --quiet, that a chief which this command started keeps
    running."""
    alone, whole = _chief_alone(status), status.inventory
    inventory = ensure_running(alone, report, start_them=True, clock=clock, whole=whole)
    started = stop_policy.running_machines(inventory) if alone.not_running else nullcontext()
    with started:
        yield inventory


def _chief_alone(status: ClusterStatus) -> ClusterStatus:
    """The status of the chief, with its part of the price."""
    chief = status.inventory.chief.name
    states = {name: state for name, state in status.instance_states.items() if name == chief}
    return replace(status, inventory=_part(status.inventory, [chief]), instance_states=states)


def _part(whole: Inventory, names: Collection[str]) -> Inventory:
    """These hosts, with their part of the price."""
    hosts = whole.only(names)
    if whole.price is None:
        return hosts
    from railhead.money.host import scaled

    return replace(hosts, price=scaled(whole.price, len(whole.hosts), len(hosts.hosts)))


def check_time_to_live(status: ClusterStatus, seconds: float, report: Reporter) -> None:
    """Before the chief serves for this time: UsageError as before a run of this length, or if the
    stack's budget, which the other running machines also use, ends earlier."""
    whole, chief, hours = status.inventory, status.inventory.chief.name, seconds / 3600
    if not whole.is_managed:
        return
    from ..runs.launch import StopPolicy

    runs = [name for name in whole.names if name == chief or name not in status.not_running]
    policy = StopPolicy(keep_minutes=0, max_hours=hours)
    policy = stop_policy.within_budget(_part(whole, runs), policy, time.time())
    if policy.max_hours is not None and policy.max_hours < hours:
        rest = floor(policy.max_hours * 100) / 100  # never more than is left
        raise UsageError(
            f"the budget of the stack is spent in {rest:g} hours, before the time-to-live of "
            f"{duration(seconds)} is over",
            hint=f"the same command with --hours {rest:g}",
        )
    runs_now = bool(status.instance_states) and chief not in status.not_running
    if runs_now and (line := stop_policy.check_before_run(whole.only([chief]), StopPolicy())):
        report(line)


def at_addresses(whole: Inventory, part: Inventory) -> Inventory:
    """The whole inventory, with the hosts of its `part` replaced by those in `part`."""
    hosts = {host.name: host for host in part.hosts}
    return replace(whole, hosts=tuple(hosts.get(host.name, host) for host in whole.hosts))


def pin_host_keys(status: ClusterStatus, report: Reporter, *, clock: Clock | None = None) -> None:
    """Pin the keys of running machines that have no pin yet, and replace injected keys."""
    if not status.instance_states:
        return
    inventory, states, clock = status.inventory, status.instance_states, clock or Clock()
    cloud, store = base.cloud_of(inventory), host_key_store(inventory)
    cloud_host_keys.pin(inventory, states, cloud, store=store, report=report, clock=clock)
    if some := key_rotation.due(inventory):
        wait_for_ssh(some, report, clock)
        key_rotation.rotate(some, report, clock=clock)
        if store:
            cloud_host_keys.share(some, store, report)


def host_key_store(inventory: Inventory) -> HostKeyStore | None:
    """The host keys in the bucket of a cloud's stack; None without a bucket."""
    if not inventory.bucket or not inventory.kind.in_cloud:
        return None
    return HostKeyStore(bucket.bucket_of(inventory))


def _confirm_start(status: ClusterStatus, start_them: bool) -> None:
    _refuse_missing(status)
    if start_them:
        return
    states = base.describe_states(dict(status.instance_states))
    question = f"not all machines run: {states}\nStart them{stop_policy.price(status.inventory)}?"
    target = status.inventory.target
    start = Command("start", **target)
    if not confirm(question, hint=Hint(start, "   # or: ", Command("train", start=True, **target))):
        raise UsageError("the machines were not started", hint=start)


def _refuse_missing(status: ClusterStatus) -> None:
    """UsageError for machines that are gone, or whose state the cloud does not report."""
    states = status.instance_states
    for state, hint in (
        ("gone", _made_anew(status.inventory)),
        ("unknown", Hint(Command("status", **status.inventory.target))),
    ):
        missing = {n: s for n, s in states.items() if s.state == state}
        if missing:
            reasons = {
                n: f"{s.state} ({s.source}): {s.reason}".rstrip(": ") for n, s in missing.items()
            }
            outcomes = {n: reasons.get(n, s.state) for n, s in states.items()}
            raise HostsNotReady(f"{', '.join(missing)}: {state}", outcomes, hint=hint)


def _made_anew(inventory: Inventory) -> Hint:
    """The command that recreates machines that are gone."""
    if inventory.kind.this_machine and not inventory.stack:
        return Hint(Command("demo"), "   # creates new ones")
    up = Command("up", refresh=True, **inventory.target)
    return Hint(up, "   # creates new ones, with empty disks")


class NoRoom(HostsFailed, NoCapacity):
    """Some machines did not start."""


def start(
    inventory: Inventory,
    report: Reporter,
    *,
    hours: float | None = None,
    clock: Clock | None = None,
    whole: Inventory | None = None,
) -> Inventory:
    """Arm the cloud's deadlines, start the machines, wait until all accept SSH logins, and move
    their timers. `whole`: the cluster that these machines are a part of, for its record.

    Raises:
        RailheadError: the cloud cannot start them; machines that did start are stopped.
        HostsFailed: a machine does not run, or does not answer, in time; or its timer was not
            moved. A line is printed about machines that this call started: they keep running.
    """
    clock = clock or Clock()
    cloud = base.cloud_of(inventory)
    status = _wait_while_stopping(inventory, cloud, report, clock)
    _refuse_missing(status)
    if inventory.budget is not None:
        from ..costs import budget

        length = hours or deadlines.default_hours(inventory)
        hours = budget.within(inventory, length, time.time(), report)
    deadlines.arm(inventory, cloud, hours, report)
    if status.not_running:
        _start(cloud, status, report, clock)
    with stop_policy.running_machines(inventory) if status.not_running else nullcontext():
        now = _wait_for_addresses(inventory, cloud, clock)
        pin_host_keys(now, report, clock=clock)
        wait_for_ssh(now.inventory, report, clock)
        deadlines.arm_timers(now.inventory, cloud, hours, report)
        _note_deadlines(now.inventory, cloud.deadlines())
        local_state.save_cluster(at_addresses(whole or now.inventory, now.inventory))
    return now.inventory


def _wait_while_stopping(
    inventory: Inventory, cloud: Cloud, report: Reporter, clock: Clock
) -> ClusterStatus:
    """Wait until no machine is stopping, as it cannot be started then; returns the status."""
    status = _query(inventory, cloud)
    if any(s.state == "stopping" for s in status.instance_states.values()):
        states = ("running", "starting", *STOPPED)
        base.wait_for_state(cloud, states, report=report, clock=clock)
        status = _query(inventory, cloud)
    return status


def _start(cloud: Cloud, status: ClusterStatus, report: Reporter, clock: Clock) -> None:
    """Start the machines and wait. If one does not start, stop those that were started with it."""
    report(f"starting {', '.join(status.not_running)}{stop_policy.price(status.inventory)}")
    try:
        cloud.start()
        states = base.wait_for_state(cloud, ("running",), report=report, clock=clock)
    except RailheadError:
        _stop_started(cloud, status, report)
        raise
    except BaseException:  # Ctrl-C
        print_result(stop_policy.keep_running(status.inventory))
        raise
    if any(s.state != "running" for s in states.values()):
        _stop_started(cloud, status, report)
        outcomes = {n: f"{s.state} {s.reason}".strip() for n, s in states.items()}
        raise NoRoom(
            "not all machines started; the cloud had no capacity for those that are stopped again",
            outcomes,
            hint=Hint(Command("start", **status.inventory.target), "   # later"),
        )


def _stop_started(cloud: Cloud, status: ClusterStatus, report: Reporter) -> None:
    """Stop the machines, unless some ran before the start: they may be in use. A refusal is only
    reported: the error of the start is raised."""
    if len(status.not_running) == len(status.instance_states):
        report("stopping the machines that were started")
        try:
            cloud.stop()
        except RailheadError as error:
            stop = Command("stop", **status.inventory.target)
            report(f"some may run: {error.message}\n  next: {stop}")


def _wait_for_addresses(inventory: Inventory, cloud: Cloud, clock: Clock) -> ClusterStatus:
    """The machines with their addresses, which a cloud may assign after it reports "running"."""

    def complete() -> ClusterStatus | None:
        status = _query(inventory, cloud)
        return status if all(s.address for s in status.instance_states.values()) else None

    complete_status = wait_until(
        complete, seconds=ADDRESS_SECONDS, every=base.POLL_SECONDS, clock=clock
    )
    return complete_status or _query(inventory, cloud)


def wait_for_ssh(inventory: Inventory, report: Reporter, clock: Clock | None = None) -> None:
    """Wait until a login on every host succeeds. A changed host key ends the wait at once.
    HostsNotReady: a login does not succeed in time, or fails for a permanent reason."""
    sessions: Sessions | None = None

    def all_succeed() -> bool:
        nonlocal sessions
        first = sessions is None
        with connect.open_sessions(inventory) as sessions:
            failed = sessions.failed
        if not all(_is_transient(error) for error in failed.values()):
            raise reach.not_reached(NO_LOGIN, sessions)
        if failed and first:
            report(f"waiting for ssh on {', '.join(failed)}")
        return not failed

    if not wait_until(
        all_succeed, seconds=SSH_SECONDS, every=base.POLL_SECONDS, clock=clock or Clock()
    ):
        assert sessions is not None
        raise reach.not_reached(NO_LOGIN, sessions)


def _is_transient(error: Exception) -> bool:
    """Whether a machine that is still booting may cause this error."""
    if isinstance(error, (UnknownHostKey, ChangedHostKey)):
        return False
    return isinstance(error, (OSError, EOFError, AuthenticationException, SSHException))


def extend(
    status: ClusterStatus,
    new: NewDeadline,
    report: Reporter,
    *,
    yes: bool = False,
    clock: Clock | None = None,
) -> None:
    """Move the cloud's deadlines, and the timers of the machines that run. If host keys are not
    pinned yet, the cloud may take minutes to show them. An earlier deadline needs consent, unless
    `yes`."""

    def pin(running: Inventory) -> None:
        try:
            pin_host_keys(replace(status, inventory=running), report, clock=clock)
        except HostsNotReady as error:
            report(error.message)  # the timers of the other machines are moved

    def agree(question: str) -> None:
        hint = Command("extend", **status.inventory.target, hours=new.text, yes=True)
        if not yes and not confirm(question, hint=hint):
            raise UsageError("nothing was changed", hint=hint)

    from ..costs import budget

    hours_left = budget.hours_left(status.inventory, time.time())
    cloud = base.cloud_of(status.inventory)
    running = running_part(status) if status.inventory.kind.in_cloud else None
    deadlines.extend(running, cloud, new, report, pin, agree, hours_left)
    _note_deadlines(status.inventory, cloud.deadlines())


def _note_deadlines(inventory: Inventory, cloud_deadlines: Mapping[str, Deadline]) -> None:
    """Record the times for a day on which the cloud does not answer."""
    times = {
        name: deadline.at.isoformat() for name, deadline in cloud_deadlines.items() if deadline.at
    }
    hosts = {host.name: str(host.id) for host in inventory.hosts}
    machines = {hosts[name]: KnownMachine(name, time) for name, time in times.items()}
    stack_records.note_deadlines(inventory.cluster_id, machines)


def running_part(status: ClusterStatus) -> Inventory | None:
    """The inventory of the hosts that run; None if none does."""
    hosts = tuple(h for h in status.inventory.hosts if h.name not in status.not_running)
    return replace(status.inventory, hosts=hosts) if hosts else None


def print_status(
    status: ClusterStatus, report: Reporter, note: Callable[[str, Deadline], None] = lambda *_: None
) -> RailheadError | None:
    """Print each machine's state, the cloud's deadlines and the price; `note` receives each
    deadline with its host. Returns an error for the caller to raise if machines run and the cloud
    would never stop them."""
    for name, s in status.instance_states.items():
        why = f"; {s.reason}" if s.reason else ""
        report(f"[{name}] {s.state}{why} ({s.source}, {s.at})")
    cloud_deadlines = base.cloud_of(status.inventory).deadlines()
    _note_deadlines(status.inventory, cloud_deadlines)
    for name, deadline in cloud_deadlines.items():
        report(f"[{name}] {deadlines.describe(deadline)}")
        note(name, deadline)
    some = len(status.not_running) < len(status.instance_states)
    if price := stop_policy.price(status.inventory):
        report(f"cost: {price[2:]} when all run" + ("" if some else "; none runs now"))
    if noted := _noted(status.inventory, status.instance_states):
        from ..costs import bill

        report(f"cost so far: {bill.so_far(noted, time.time())}")
    bad = {
        n: d
        for n, d in cloud_deadlines.items()
        if d.state == MISSING or (d.state != "armed" and some)
    }
    return unarmed(status.inventory, bad)


def unarmed(inventory: Inventory, bad: Mapping[str, Deadline]) -> RailheadError | None:
    """The error for deadlines that will not stop their machines; None without any."""
    if not bad:
        return None
    states = ", ".join(sorted({deadline.state for deadline in bad.values()}))
    message = (
        f"the cloud's own deadline of {', '.join(bad)} is {states}: the cloud does not stop it"
    )
    target = inventory.target
    if all(deadline.exists for deadline in bad.values()):
        extend = Command("extend", **target, hours=8)
        return RailheadError(message, hint=Hint(extend, "   # sets it again"))
    up = Command("up", refresh=True, **target)
    return RailheadError(message, hint=Hint(up, "   # creates it"))
