"""`fab up`: runs `pulumi up`, reports what an interruption leaves, and tries other zones.

A Pulumi program cannot catch the refusal of a machine and continue in another zone. So after a
refusal for capacity, and only if the cluster had no machine before, everything created so far is
removed, the next zone that offers the machine type becomes the first, and `pulumi up` runs again;
with configured zones, the next of these. The same happens, in the same zone, if a killed `pulumi
up` left a resource whose name is needed.

A machine with the stack's id that is not in Pulumi's state was left by a killed `pulumi up`. The
next one would create it a second time, so the machine is terminated first.

If results were not fetched, `pulumi preview --json` is read first: `fab up` does not remove a
machine with the only copy of results.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache

from railhead.documents.clouds import is_no_capacity

from ...clouds import base
from ...clouds.base import STOPPED
from ...console.output import Reporter, confirm
from ...console.text import count
from ...errors import Command, Hint, NoCapacity, RailheadError, UsageError, typed_options
from ...inventory import pulumi_cli, pulumi_lock, pulumi_stack, stack_config
from ...inventory.hosts import Inventory
from ...inventory.stack_state import StackState
from .. import consent, destroy, held, power, stack_machines, stop_policy
from ..stack_machines import StackMachines, StackView
from . import as_before

# As in InvalidPermission.Duplicate, InvalidSubnet.Conflict, Resource.AlreadyAssociated, 409.
CONFLICT = re.compile(
    r"already exists|Already(Exists|Associated|OwnedByYou)|\.Duplicate|Conflict|Error 409:"
)
# An error of the stack's program, as in "machine_type: ...": it has its own next command.
REFUSED = re.compile(r"^ +next: (.+)$", re.MULTILINE)
# EC2's reason for a machine that ended while it started.
LAUNCH = re.compile(r"Client\.(InternalError|InvalidKMSKey)|Client error on launch")
BUCKET = re.compile(
    r"BucketAlready(Exists|OwnedByYou)|named bucket succeeded|bucket name is not available"
)


def up(stack: str, report: Reporter, *, yes: bool, refresh: bool, discard: bool = False) -> None:
    """Create or change the machines of a stack; Pulumi prints its own output.

    Args:
        yes: make the changes without a preview and a question.
        refresh: compare Pulumi's state with the cloud first; finds machines that are gone.
        discard: also remove machines with the only copy of results.

    Raises:
        UsageError: results would be lost, or the user did not agree; nothing was changed.
        RailheadError: `pulumi up` broke off; the message names what runs and its cost. Or a machine
            runs that its cloud would never stop.
    """
    view = StackView(stack)
    pulumi_stack.refuse_damaged(view.machines.state)
    if view.machines.strays and not _moves(view.machines.state):
        _end_strays(view, report, yes=yes, discard=discard)
    were = as_before.read(view.machines, report)
    refresh = refresh or bool(were.lost_deadlines)  # otherwise Pulumi does not know of it
    if inventory := view.machines.inventory:
        _refuse_loss(inventory, stack, report, refresh=refresh, yes=yes, discard=discard)
    if not yes:
        _preview(stack, refresh)
        view.refresh()  # a colleague may have changed it before the answer
    before = view.machines
    result = pulumi_stack.up(stack, refresh=refresh)
    if result.code and is_conflict(result.text) and _clear_way(view, result, report):
        result = pulumi_stack.up(stack, refresh=False)
    result, tried = _in_zones(view, before, result, report)
    if result.code and _may_move(before, result):
        result, tried = _in_regions(view, before, result, tried, report)
    if refusal := pulumi_cli.refusal(result.text):
        raise refusal
    now = view.refresh()
    if now.inventory:
        as_before.restore(were, now.inventory, report)
    if result.code:
        raise _broken(now, result, tried if len(tried) > 1 else (), report)
    for line in now.describe():
        report(line)
    if now.inventory and (error := as_before.deadline_error(now.inventory)):
        raise error


def _in_zones(
    view: StackView, before: StackMachines, result: pulumi_cli.Streamed, report: Reporter
) -> tuple[pulumi_cli.Streamed, list[str]]:
    """After a refusal for capacity, an `up` in each other zone of the region, until one has room;
    the last result, and the zones that were tried."""
    stack = before.stack
    zones = pulumi_stack.state(stack).zones if result.code and _may_move(before, result) else ()
    tried = [*zones[:1]]
    while result.code and _may_move(before, result) and len(tried) < len(zones):
        _remove(view, report)
        first, zones = zones[0], (*zones[1:], zones[0])
        pulumi_stack.set_config(stack, "zones", ",".join(zones))
        report(f"no capacity in {first}: now in {zones[0]}; `zones` of the stack is set")
        result = pulumi_stack.up(stack, refresh=False)
        tried.append(zones[0])
    return result, tried


def _in_regions(
    view: StackView,
    before: StackMachines,
    result: pulumi_cli.Streamed,
    tried: list[str],
    report: Reporter,
) -> tuple[pulumi_cli.Streamed, list[str]]:
    """After all zones, the same in each region of the config's `regions`. A region is skipped if
    the stack's program refuses its quota, image or network."""
    config = stack_config.read(before.stack)
    last = config.region if config else None
    for region in (name for name in (config.regions if config else ()) if name != last):
        _remove(view, report)
        pulumi_stack.set_region(before.stack, region)
        report(
            f"no capacity in {last}: now in {region}, with its own quotas, prices and bucket; "
            "`region` of the stack is set, `zones` is not"
        )
        result = pulumi_stack.up(before.stack, refresh=False)
        result, zones = _in_zones(view, before, result, report)
        tried, last = [*tried, *(zones or [region])], region
        if result.code and REFUSED.search(result.text) and view.refresh().inventory is None:
            report(f"{region} is left out: the message above says why")
        elif not (result.code and _may_move(before, result)):
            break
    return result, tried


def _refuse_loss(
    inventory: Inventory, stack: str, report: Reporter, *, refresh: bool, yes: bool, discard: bool
) -> None:
    """UsageError if results would be lost, or without `yes` a run or an endpoint would end."""
    if yes and discard:
        return
    answers = held.ask(inventory)
    changes = cache(lambda: pulumi_stack.machine_changes(stack, refresh=refresh))
    if not discard:
        for line in answers.describe():
            report(line)
        consent.refuse_removal(inventory, answers, lambda: changes().removed)
    if not yes:
        changed = lambda: (*changes().removed, *changes().stopped)  # noqa: E731
        consent.refuse_interruption(inventory, answers, changed)


def _preview(stack: str, refresh: bool) -> None:
    """Show the changes and ask."""
    hint = Command("up", yes=True, stack=stack)
    result = pulumi_stack.up(stack, refresh=refresh, preview=True)
    if result.code:
        if refusal := pulumi_cli.refusal(result.text):
            raise refusal
        raise UsageError(f"the preview of stack {stack} failed: nothing was changed")
    if not confirm(f"Make these changes to stack {stack}?", hint=hint):
        raise UsageError("nothing was changed", hint=hint)


def _moves(state: StackState) -> bool:
    """Whether the config has another place than the stack: the stack's program refuses that while
    anything exists, so nothing may be terminated first."""
    config = stack_config.read(state.stack)
    return config is not None and (config.cloud, config.region) != (state.cloud, state.region)


def _end_strays(view: StackView, report: Reporter, *, yes: bool, discard: bool) -> None:
    """Ask, then terminate the machines that are not in Pulumi's state.

    Raises:
        UsageError: an `up` in progress may have created them, results would be lost, or the user
            did not agree; nothing was changed.
        RailheadError: one of them still exists.
    """
    again = Command("up", stack=view.stack)
    pulumi_lock.refuse_locked(view.stack, again)
    before = view.refresh()  # by now the state may have them
    ids = {machine.id for machine in before.strays}
    if before.inventory is None or not ids:
        return
    if not discard:
        answers = held.ask(before.inventory)
        consent.refuse_removal(before.inventory, answers, lambda: sorted(ids))
    hosts = tuple(host for host in before.inventory.hosts if host.id in ids)
    machines = ", ".join(map(str, before.strays))
    consent.before_question(yes)(
        f"a killed `pulumi up` left {machines}, in no state of Pulumi: terminated, with their disks"
    )
    question = f"Terminate {', '.join(host.name for host in hosts)}?"
    if not yes and not confirm(question, hint=again.plus(yes=True)):
        raise UsageError("nothing was changed", hint=again)
    cloud = base.cloud_of(replace(before.inventory, hosts=hosts))
    cloud.terminate()
    states = base.wait_for_state(cloud, ("gone",), report=report)
    if remaining := [name for name, state in states.items() if state.state != "gone"]:
        raise RailheadError(f"{', '.join(remaining)} exists still", hint=again)
    _remove_deadlines(view, report, ids)
    view.refresh()


def _may_move(before: StackMachines, result: pulumi_cli.Streamed) -> bool:
    """Whether another zone may be tried."""
    return _had_none(before, result) and is_no_capacity(result.text)


def _had_none(before: StackMachines, result: pulumi_cli.Streamed) -> bool:
    """Whether everything created may be removed. Not after Ctrl-C, and not if machines existed
    before, or may have existed because the cloud did not list them: those are kept."""
    return before.inventory is None and not before.unlisted and not _refused(result)


def _refused(result: pulumi_cli.Streamed) -> bool:
    """Whether nothing may be removed: the user interrupted it, or another `up` of the stack is in
    progress and is creating what exists."""
    return result.interrupted or pulumi_cli.is_locked(result.text)


def _clear_way(view: StackView, result: pulumi_cli.Streamed, report: Reporter) -> bool:
    """Remove what a killed `pulumi up` left under a name that is needed; whether to try again."""
    before = view.machines
    if _had_none(before, result):
        report("what a killed `pulumi up` left is in the way")
        _remove(view, report)
        if has_bucket_conflict(result.text):
            _remove_bucket(before, report)
        return True
    return not _refused(result) and _remove_deadlines(view, report)


def _remove_deadlines(view: StackView, report: Reporter, ids: Collection[str] = ()) -> bool:
    """Remove deadlines that are not in Pulumi's state, of these machines or of all recorded ones;
    returns whether there were any."""
    try:
        now = view.refresh()
        machines = ids or [machine.id for machine in now.state.machines]
        removed = stack_machines.remove_unrecorded_deadlines(now, machines)
    except RailheadError as error:  # the error of the `up` is raised
        report(error.message)
        return False
    if removed:
        report(f"a killed `pulumi up` left {', '.join(removed)}: removed")
    return bool(removed)


def is_conflict(text: str) -> bool:
    """Whether Pulumi's output has a refusal because something with this name or place exists."""
    return bool(CONFLICT.search(text))


def has_bucket_conflict(text: str) -> bool:
    """Whether Pulumi's output has a refusal because a bucket of the configured name exists."""
    return bool(BUCKET.search(text))


def _remove_bucket(before: StackMachines, report: Reporter) -> None:
    """Remove the configured bucket if it is empty and has the id of the state before: then a killed
    `up` of this stack left it."""
    name = pulumi_stack.config(before.stack).get("bucket_name")
    if name and stack_machines.remove_bucket(before, name):
        report(f"removed the empty bucket {name}, which has this stack's id")


def _remove(view: StackView, report: Reporter) -> None:
    """Remove what a refused `up` has created. RailheadError: something is left."""
    report("removing what was created")
    again = Command("up", stack=view.stack)
    lines = destroy.remove_made(view.refresh(), report, again=again)
    if remaining := [line.text for line in lines if not line.verified]:
        raise RailheadError(
            f"what was created could not be removed: {'; '.join(remaining)}",
            hint=Command("teardown", destroy=True, stack=view.stack),
        )


def _broken(
    machines: StackMachines, result: pulumi_cli.Streamed, tried: Sequence[str], report: Reporter
) -> RailheadError:
    """The error after a break: what runs now, what it costs, and the commands."""
    stack = machines.stack
    for line in machines.describe():
        report(line)
    message = f"pulumi up of stack {stack} broke off; "
    if tried:
        message += f"none of its zones has capacity: {', '.join(tried)}; "
    status = _status(machines, report)
    message += _what_runs(machines, status)
    up, end = Command("up", stack=stack), Command("teardown", destroy=True, stack=stack)
    if pulumi_cli.is_locked(result.text):
        locked = pulumi_lock.locked(stack, result.text, up)
        return RailheadError(f"{message}; {locked.message}", hint=locked.next)
    if has_bucket_conflict(result.text):
        message += "; its bucket_name names a bucket that exists and is in no state of Pulumi"
        option = typed_options({"stack": stack})
        change = f"pulumi config set{option} bucket_name OTHER && "
        more = "   # or remove the bucket, if it is yours, and repeat the command"
        return RailheadError(message, hint=Hint(change, up, more))
    if is_conflict(result.text) and machines.inventory is None:
        message += "; what a killed `pulumi up` left is in the way"
        return RailheadError(message, hint=Hint(end, " && ", up))
    if LAUNCH.search(result.text):
        message += (
            "; EC2 ended a machine as it started, most often as its disk's key cannot be used"
        )
        return RailheadError(
            message, hint=Hint(Command("doctor", stack=stack), "   # reads the key")
        )
    if refused := REFUSED.search(result.text):  # the same command would be refused again
        return RailheadError(f"{message}; the config is refused", hint=refused[1])
    if status and any(state.state == "gone" for state in status.instance_states.values()):
        up = up.plus(refresh=True)  # otherwise Pulumi changes machines that do not exist
    kind = NoCapacity if is_no_capacity(result.text) else RailheadError
    return kind(message, hint=Hint(up, "   # continues; to end all of it: ", end))


def _status(machines: StackMachines, report: Reporter) -> power.ClusterStatus | None:
    """Print the machines as their cloud reports them; None if it does not answer."""
    if machines.inventory is None:
        return None
    try:
        status = power.cluster_status(machines.inventory)
    except RailheadError as error:
        report(error.message)
        return None
    power.print_status(status, report)
    return status


def _what_runs(machines: StackMachines, status: power.ClusterStatus | None) -> str:
    if machines.inventory is None:
        return "it has no machine"
    if status is None:
        return f"{', '.join(machines.inventory.names)} may run"
    running = [n for n, s in status.instance_states.items() if s.state not in STOPPED]
    cost = stop_policy.price(machines.inventory) if running else ""
    return f"{count(len(running), 'machine')} running now{cost}"
