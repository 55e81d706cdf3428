"""Stops the machines of a stack through their cloud, or destroys the whole stack.

Both return a receipt: the states that the cloud reports, and what still costs money.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from railhead.documents.lazy import dataclass
from railhead.documents.outputs import ReceiptLine as Line

from ..clouds import base, bucket
from ..clouds.base import STOPPED, Cloud, Cost, InstanceState
from ..clouds.bucket import Bucket
from ..console.output import Reporter, print_lines, print_result
from ..console.text import count
from ..console.wait import Clock
from ..costs import bill, ledger
from ..errors import Command, Hint, RailheadError, UsageError
from ..inventory import local_state, pulumi_lock, pulumi_stack
from ..inventory.clouds import STATE_TYPES
from ..inventory.hosts import Host, Inventory
from ..inventory.stack_state import BUCKETS
from . import cloud_host_keys, held, stack_machines
from .consent import (
    DESTROY,
    TEARDOWN,
    confirm_by_name,
    not_all_here,
    only_on_machines,
    refuse_unfetched,
    stop_or_terminate,
    to_bring,
)
from .receipt import Receipt, billing_lines, machine_line
from .stack_machines import StackMachines

NOT_ADOPTED = (
    "the bucket, and networks and accounts without an id, stay: Pulumi has no state of them"
)
ROUNDS = 3  # of terminating machines that appear while others are terminated


@dataclass
class StopTimes:
    """Reads machine states from a cloud, and records when it first reports each as stopped."""

    cloud: Cloud
    stopped_at: dict[str, str] = field(default_factory=dict)

    def instance_states(self) -> dict[str, InstanceState]:
        """The state of each machine."""
        states = self.cloud.instance_states()
        for name, state in states.items():
            if state.state in STOPPED:
                self.stopped_at.setdefault(name, state.at)
        return states


def teardown_stack(
    machines: StackMachines, *, discard: bool, destroyed: bool, yes: bool, with_bucket: bool
) -> Receipt:
    """Stop a stack's machines, or destroy the whole stack; print and return the receipt.
    UsageError: results would be lost, or the user did not agree; nothing was changed."""
    inventory = machines.inventory
    if destroyed:
        agree = _agree(machines, yes)
        receipt = destroy(
            machines, print_lines, agree=agree, discard=discard, with_bucket=with_bucket
        )
    elif inventory is None:
        raise pulumi_stack.no_machines(machines.stack)
    else:
        cloud = base.cloud_of(inventory)
        halt = stop_or_terminate(
            inventory, cloud, yes=yes, discard=discard, command=TEARDOWN, ask=held.ask
        )
        receipt = stop_with_receipt(inventory, cloud, print_lines, halt=halt)
    print_result(*receipt.describe())
    return receipt


def _agree(machines: StackMachines, yes: bool) -> Callable[[str], None]:
    """As `confirm_by_name`; UsageError also if the machines changed before the answer."""
    by_name = confirm_by_name(machines.stack, yes)

    def agree(summary: str) -> None:
        by_name(summary)
        if not yes and _ids(stack_machines.find(machines.stack)) != _ids(machines):
            raise UsageError(
                f"the machines of stack {machines.stack} have changed: nothing was removed",
                hint=DESTROY.plus(stack=machines.stack),
            )

    return agree


def _ids(machines: StackMachines) -> set[str | None]:
    return {host.id for host in machines.inventory.hosts} if machines.inventory else set()


def stop_with_receipt(
    inventory: Inventory,
    cloud: Cloud,
    report: Reporter,
    *,
    halt: Callable[[], None] | None = None,
    clock: Clock | None = None,
) -> Receipt:
    """Stop the machines, wait until the cloud reports them as stopped, return the receipt. `halt`
    stops the machines, or terminates them; default: `cloud.stop`."""
    lines = []
    try:
        (halt or cloud.stop)()
    except RailheadError as error:
        lines.append(Line("stop", error.message, verified=False))
    lines += stopped_lines(inventory, cloud, report, clock)
    lines += cost_lines(cloud, inventory.target)
    lines += result_lines(inventory)
    return Receipt(inventory.name, base.utc_now(), tuple(lines))


def stopped_lines(
    inventory: Inventory, cloud: Cloud, report: Reporter, clock: Clock | None
) -> list[Line]:
    """Wait, with a time limit, until the cloud reports all as stopped; one line per machine, and
    one with what they have cost."""
    times = StopTimes(cloud)
    states = base.wait_for_state(times, STOPPED, report=report, clock=clock)
    lines = [machine_line(name, s, times.stopped_at.get(name, "")) for name, s in states.items()]
    noted = ledger.note(inventory, states)
    return [*lines, Line("cost", bill.so_far(noted, time.time()))] if noted else lines


def result_lines(inventory: Inventory) -> list[Line]:
    """Where the results of runs are if they were not fetched, or only partly."""
    unfetched = not_all_here(inventory)
    chief, start = inventory.chief.name, Command("start", **inventory.target)
    try:
        unsaved = only_on_machines(inventory, with_bucket=False)
    except RailheadError as error:
        text = f"on {chief}'s disk, and perhaps in {inventory.bucket}: {error.message}"
        return [Line("results", f"{run_id}: {text}", verified=False) for run_id in unfetched]
    places = {
        run_id: f"only on {chief}, on its disk: {start}, then {to_bring(inventory, run_id)}"
        if run_id in unsaved
        else f"in {inventory.bucket}/runs/{run_id}: {Command('fetch', run=run_id)}"
        for run_id in unfetched
    }
    return [Line("results", f"{run_id}: {place}") for run_id, place in places.items()]


def cost_lines(cloud: Cloud, target: Mapping[str, str]) -> list[Line]:
    """The costs that continue, or one line if they cannot be read."""
    try:
        return billing_lines(cloud.costs(), target)
    except RailheadError as error:
        text = f"the cloud does not report the costs: {error.message}"
        return [Line("bills", text, verified=False)]


def destroy(
    machines: StackMachines,
    report: Reporter,
    *,
    agree: Callable[[str], None],
    discard: bool,
    with_bucket: bool = False,
    clock: Clock | None = None,
) -> Receipt:
    """Terminate the machines through their cloud, then destroy the stack; verify both. Pulumi
    removes the cloud's deadlines with the stack, so it runs only when the cloud has reported every
    machine as gone. UsageError: results of a run would be lost, a machine is protected, the user
    did not agree, or another command of Pulumi works on the stack; nothing changed."""
    inventory = machines.inventory
    _refuse_protected(machines, with_bucket)
    if inventory is None:
        to_empty = _bucket_to_empty(machines, discard) if with_bucket else None
        content = f", with all that is in {to_empty.store.url}" if to_empty else ""
        summary = f"destroying stack {machines.stack}: it has no machine"
        agree(f"{summary}; all the rest{content} is removed")
        lines = _remove_made(machines, report, to_empty)
        remaining = remaining_machines(machines)
        lines += _not_in(lines, remaining)
        return _receipt(machines, lines if remaining else [*lines, *_no_machine(machines)])
    refuse_unfetched(inventory, discard, with_bucket, ask=held.ask)
    cloud = base.cloud_of(inventory)
    to_empty = bucket.bucket_of(inventory) if with_bucket and inventory.bucket else None
    agree("\n".join(resources_to_destroy(inventory, _known_costs(cloud, report), with_bucket)))
    if lines := terminate_machines(machines, report, clock):
        lines.append(Line("pulumi", "not started: machines remain, and so do their deadlines"))
        return _receipt(machines, lines)
    lines = [empty_bucket(to_empty, report)] if to_empty else remove_wheels(inventory, report)
    of_pulumi = _pulumi_destroy(machines)
    lines += [*of_pulumi, *stopped_lines(inventory, cloud, report, clock)]
    remaining = remaining_machines(machines)
    lines += [*_not_in(lines, remaining), *cost_lines(cloud, inventory.target)]
    # Otherwise the record stays, so that the same command can continue.
    if all(line.verified for line in (*of_pulumi, *remaining)):
        local_state.forget_cluster(inventory.name)
    return _receipt(machines, lines)


def _refuse_protected(machines: StackMachines, with_bucket: bool) -> None:
    """UsageError if the stack's program, or its user, has protected a machine or the bucket: the
    cloud would remove them at our request, although Pulumi refuses. A bucket that is not emptied
    stays in any case."""
    protected = machines.state.protected.items()
    if names := [name for name, kind in protected if with_bucket or kind not in BUCKETS]:
        again = DESTROY.plus(stack=machines.stack)
        raise UsageError(
            f"{', '.join(names)} of stack {machines.stack}: protected; nothing was removed",
            hint=Hint(f"{pulumi_stack.unprotect(machines.stack)} && ", again),
        )


def _no_machine(machines: StackMachines) -> list[Line]:
    """The evidence that a stack has no machine: a search by its id, or by its tags if it has no
    id."""
    state, searched = machines.state, machines.searched
    if searched:
        return [Line("machines", searched.text, verified=searched.is_evidence)]
    if state.cluster_id is None:
        return [Line("machines", "the stack has no id to ask a cloud for", verified=False)]
    if state.cloud is None:
        return [Line("machines", "the stack has none in a cloud")]
    return [Line("machines", f"none has the id {state.cluster_id} in {machines.place}")]


def _known_costs(cloud: Cloud, report: Reporter) -> Sequence[Cost]:
    """The costs; none if the cloud does not report them: the machines are terminated anyway."""
    try:
        return cloud.costs()
    except RailheadError as error:
        report(f"disks and bucket are not listed: {error.message}")
        return []


def _bucket_to_empty(machines: StackMachines, discard: bool) -> Bucket | None:
    """The bucket of a stack that has no machine; None if it has no bucket. UsageError: results of a
    run would be lost with the bucket."""
    state = machines.state
    if not state.bucket:
        return None
    inventory = machines.document or Inventory(
        state.cluster or state.stack, (Host("gone", "gone"),), stack=state.stack
    )
    inventory = replace(inventory, region=state.region, bucket=state.bucket)
    refuse_unfetched(inventory, discard, with_bucket=True)
    return bucket.bucket_of(inventory)


def remove_made(
    machines: StackMachines,
    report: Reporter,
    to_empty: Bucket | None = None,
    again: Command = DESTROY,
) -> list[Line]:
    """Terminate the machines of a stack and destroy the rest, without a question; returns a line
    for everything that remains. A bucket with objects stays, with the wheels in it, but `to_empty`
    is emptied. `again`: the command that does this, for an error."""
    lines = _remove_made(machines, report, to_empty, again)
    return [*lines, *_not_in(lines, remaining_machines(machines))]


def _remove_made(
    machines: StackMachines, report: Reporter, to_empty: Bucket | None, again: Command = DESTROY
) -> list[Line]:
    lines = terminate_machines(machines, report, None, again)
    if not lines:
        lines = [empty_bucket(to_empty, report)] if to_empty else []
        lines += _pulumi_destroy(machines)
    return lines


def _not_in(lines: Sequence[Line], remaining: Sequence[Line]) -> list[Line]:
    """The remaining machines of which no line says that they are not gone."""
    named = {line.host for line in lines if not line.verified}
    return [line for line in remaining if line.host not in named]


def _receipt(machines: StackMachines, lines: Sequence[Line]) -> Receipt:
    return Receipt(f"stack {machines.stack}", base.utc_now(), tuple(lines))


def _pulumi_destroy(machines: StackMachines) -> list[Line]:
    """Destroy the stack, and what a killed `up` left with its id. If Pulumi fails, such leftovers
    may be the reason: it runs once more after their removal."""
    if machines.is_adopted:
        return [*_remove_unrecorded(machines)[1], Line("rest", NOT_ADOPTED)]
    lines = _run_destroy(machines.stack)  # not after `Locked`: another `up` may own what has the id
    removed, notes = _remove_unrecorded(machines)
    if removed and not all(line.verified for line in lines):
        lines = _run_destroy(machines.stack)
    return [*lines, *notes]


def _run_destroy(stack: str) -> list[Line]:
    """`pulumi destroy`; lines only if something is left. RailheadError: another command of Pulumi
    has begun meanwhile."""
    try:
        pulumi_stack.destroy(stack)
    except pulumi_lock.Locked as error:
        done = "the machines are terminated, and the rest is not removed"
        raise RailheadError(f"{error.message}; {done}", hint=error.next) from None
    except RailheadError as error:
        return failure_lines(stack, error)
    return []


def _remove_unrecorded(machines: StackMachines) -> tuple[list[str], list[Line]]:
    """Remove resources that are not in Pulumi's state; returns their ids, and a line about them."""
    try:
        ids = [m.id for m in machines.state.machines] + [m.id for m in machines.strays]
        removed = stack_machines.remove_unrecorded_deadlines(machines, ids)
        removed += stack_machines.remove_leftovers(machines)
    except RailheadError as error:
        unknown = "what a killed `pulumi up` may have left besides machines is not known"
        return [], [Line("leftovers", f"{unknown}; it costs nothing: {error.message}")]
    text = f"in no state of Pulumi, and removed: {', '.join(removed)}"
    return removed, [Line("leftovers", text)] if removed else []


def terminate_machines(
    machines: StackMachines, report: Reporter, clock: Clock | None, again: Command = DESTROY
) -> list[Line]:
    """Terminate all machines of a stack, and those that appear meanwhile: a killed `pulumi up` may
    have requested one that the cloud did not list yet. Returns a line for each that is not gone.
    Locked: another command of Pulumi works on the stack: it may be creating them."""
    if not machines.is_adopted:
        pulumi_lock.refuse_locked(machines.stack, again)
    inventory = machines.inventory or stack_machines.of_id(machines)
    for _ in range(ROUNDS):
        if inventory is None:
            return []
        cloud = base.cloud_of(inventory)
        targets = STOPPED if inventory.kind.this_machine else ("gone",)
        try:
            cloud.terminate()
        except RailheadError as error:
            return [Line("end", error.message, verified=False)]
        states = base.wait_for_state(cloud, targets, report=report, clock=clock)
        remaining = {name: s for name, s in states.items() if s.state not in targets}
        if remaining:
            return [replace(machine_line(n, s), verified=False) for n, s in remaining.items()]
        inventory = stack_machines.of_id(machines)
    status = Command("status", stack=machines.stack)
    return [Line("end", f"new machines appeared {ROUNDS} times: {status}", verified=False)]


def remaining_machines(machines: StackMachines) -> list[Line]:
    """A line for each machine with the stack's id that its cloud still lists."""
    try:
        remaining = stack_machines.of_id(machines)
    except RailheadError as error:
        return [Line("machines", f"cannot be listed: {error.message}", verified=False)]
    hosts = remaining.hosts if remaining else ()
    return [Line(host.name, f"{host.id} exists", verified=False) for host in hosts]


def empty_bucket(to_empty: Bucket, report: Reporter) -> Line:
    """Remove all objects from the bucket."""
    return Line("bucket", f"{count(to_empty.empty(report), 'object')} removed, with old versions")


def remove_wheels(inventory: Inventory, report: Reporter) -> list[Line]:
    """Remove only the wheels and the machines' host keys from the bucket, if there is one: a bucket
    without other objects can then be deleted with its stack."""
    if not inventory.bucket:
        return []
    contents = "the Horovod wheels and host keys in it"
    prefixes = (bucket.WHEELS, cloud_host_keys.FOLDER)
    try:
        store = bucket.bucket_of(inventory)
        gone = sum(store.empty(report, prefix) for prefix in prefixes)
    except RailheadError as error:
        return [Line("bucket", f"{contents} stay: {error.message}")]
    text = f"{contents}: {count(gone, 'object')} removed, with old versions"
    return [Line("bucket", text)] if gone else []


def resources_to_destroy(
    inventory: Inventory, costs: Sequence[Cost], with_bucket: bool
) -> list[str]:
    """What a destroy removes, for the user to confirm."""
    hosts = [f"  machine {h.name} ({h.id or h.address}) with its disk" for h in inventory.hosts]
    how = "  with all that is in it: " if with_bucket else "  stays if it has more than wheels: "
    texts = [cost.description for cost in costs]
    others = [f"  {text}" for text in texts if not text.startswith("bucket")]
    buckets = [f"{how}{text}" for text in texts if text.startswith("bucket")]
    in_cloud = "  the stack's network, keys, roles and deadline"
    rest = [] if inventory.kind.this_machine else [in_cloud]
    return [f"destroying stack {inventory.stack} removes", *hosts, *others, *rest, *buckets]


def failure_lines(name: str, error: RailheadError) -> list[Line]:
    """Lines for an incomplete destroy. A bucket that keeps its objects is not a failure."""
    following = f"\n    next: {error.hint}" if error.hint else ""
    try:
        remaining = pulumi_stack.resources(name)
    except RailheadError as unknown:
        reasons = "; ".join(dict.fromkeys((error.message, unknown.message)))
        return [Line("pulumi", f"{reasons}{following}", verified=False)]
    if remaining and all(any(t.may_remain(kind) for t in STATE_TYPES) for kind in remaining):
        return [Line("pulumi", "all is gone but the bucket, which has objects and is kept")]
    kinds = ", ".join(sorted(set(remaining))) or "nothing"
    return [Line("pulumi", f"{error.message}; in its state: {kinds}{following}", verified=False)]
