"""`fab up`: runs `pulumi up`, reports what an interruption leaves, and tries other zones.

A Pulumi program cannot catch the refusal of a machine and continue in another zone. So after a
refusal for capacity, and only if the cluster had no machine before, everything created so far is
removed, the next zone that offers the machine type becomes the first, and `pulumi up` runs again;
with configured zones, the next of these. The same happens, in the same zone, if a killed `pulumi
up` left a resource whose name is needed.

Where results were not fetched, `pulumi preview --json` is read first: `fab up` removes no machine
that alone has results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from railhead.documents.clouds import is_no_capacity

from ..clouds.base import STOPPED
from ..console.output import Reporter, confirm
from ..console.text import count
from ..errors import Command, Hint, NoCapacity, RailheadError, UsageError, typed_options
from ..inventory import pulumi_cli, pulumi_stack
from . import consent, destroy, power, stack_machines, stop_policy
from .stack_machines import StackMachines

# As in InvalidPermission.Duplicate, InvalidSubnet.Conflict, Resource.AlreadyAssociated, 409.
CONFLICT = re.compile(
    r"already exists|Already(Exists|Associated|OwnedByYou)|\.Duplicate|Conflict|Error 409:"
)
BUCKET = re.compile(
    r"BucketAlready(Exists|OwnedByYou)|named bucket succeeded|bucket name is not available"
)


def up(stack: str, report: Reporter, *, yes: bool, refresh: bool, discard: bool = False) -> None:
    """Create or change the machines of a stack; Pulumi prints its own output.

    Args:
        stack: the stack.
        yes: make the changes without a preview and a question.
        refresh: compare Pulumi's state with the cloud first; finds machines that are gone.
        discard: also remove machines that alone have results.

    Raises:
        UsageError: results would be lost, or the user did not agree; nothing was changed.
        RailheadError: `pulumi up` broke off; the message names what runs and its cost.
    """
    before = stack_machines.find(stack)
    if before.inventory and not discard:
        consent.refuse_removal(
            before.inventory, lambda: pulumi_stack.removed_machines(stack, refresh=refresh)
        )
    if not yes:
        _preview(stack, refresh)
        before = stack_machines.find(stack)  # a colleague may have changed it before the answer
    result = pulumi_stack.up(stack, refresh=refresh)
    if result.code and is_conflict(result.text) and _clear_way(before, result, report):
        result = pulumi_stack.up(stack, refresh=False)
    zones = pulumi_stack.state(stack).zones if result.code and _may_move(before, result) else ()
    tried = 1
    while result.code and _may_move(before, result) and tried < len(zones):
        _remove(stack, report)
        first, zones = zones[0], (*zones[1:], zones[0])
        pulumi_stack.set_zones(stack, zones)
        report(f"no capacity in {first}: now in {zones[0]}; `zones` of the stack is set")
        result = pulumi_stack.up(stack, refresh=False)
        tried += 1
    if refusal := pulumi_cli.refusal(result.text):
        raise refusal
    if result.code:
        raise _broken(stack, result, zones if tried > 1 else (), report)
    for line in stack_machines.find(stack).describe():
        report(line)


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


def _may_move(before: StackMachines, result: pulumi_cli.Streamed) -> bool:
    """Whether another zone may be tried."""
    return _had_none(before, result) and is_no_capacity(result.text)


def _had_none(before: StackMachines, result: pulumi_cli.Streamed) -> bool:
    """Whether everything created may be removed. Not after Ctrl-C, and not if machines existed
    before, or may have existed because the cloud did not list them: those are not given up."""
    return before.inventory is None and not before.unlisted and not _refused(result)


def _refused(result: pulumi_cli.Streamed) -> bool:
    """Whether nothing may be removed: the user interrupted it, or another `up` of the stack is in
    progress, and what exists is what that one creates."""
    return result.interrupted or pulumi_cli.is_locked(result.text)


def _clear_way(before: StackMachines, result: pulumi_cli.Streamed, report: Reporter) -> bool:
    """Remove what a killed `pulumi up` left under a name that is needed; whether to try again."""
    if _had_none(before, result):
        report("what a killed `pulumi up` left is in the way")
        _remove(before.stack, report)
        if has_bucket_conflict(result.text):
            _remove_bucket(before, report)
        return True
    return not _refused(result) and _remove_deadlines(before.stack, report)


def _remove_deadlines(stack: str, report: Reporter) -> bool:
    """Remove deadlines of recorded machines that are in no state; whether there were any."""
    try:
        now = stack_machines.find(stack)
        recorded = [machine.id for machine in now.state.machines]
        removed = stack_machines.remove_unrecorded_deadlines(now, recorded)
    except RailheadError as error:  # what broke off is raised
        report(error.message)
        return False
    if removed:
        report(f"a killed `pulumi up` left {', '.join(removed)}: removed, and created again now")
    return bool(removed)


def is_conflict(text: str) -> bool:
    """Whether Pulumi's output has a refusal because something with this name or place exists."""
    return bool(CONFLICT.search(text))


def has_bucket_conflict(text: str) -> bool:
    """Whether Pulumi's output has a refusal because a bucket of the configured name exists."""
    return bool(BUCKET.search(text))


def _remove_bucket(before: StackMachines, report: Reporter) -> None:
    """Remove the configured bucket if a killed `up` of this stack left it, without objects: the
    stack's id, which it has, is that of the state before."""
    name = pulumi_stack.config(before.stack).get("bucket_name")
    if name and stack_machines.remove_bucket(before, name):
        report(f"removed the empty bucket {name}, which has this stack's id")


def _remove(stack: str, report: Reporter) -> None:
    """Remove what a refused `up` has created.

    Raises:
        RailheadError: something is left.
    """
    report("removing what was created")
    lines = destroy.remove_made(stack_machines.find(stack), report)
    if remaining := [line.text for line in lines if not line.verified]:
        raise RailheadError(
            f"what was created could not be removed: {'; '.join(remaining)}",
            hint=Command("teardown", destroy=True, stack=stack),
        )


def _broken(
    stack: str, result: pulumi_cli.Streamed, tried: Sequence[str], report: Reporter
) -> RailheadError:
    """The error after a break: what runs now, what it costs, and the commands."""
    machines = stack_machines.find(stack)
    for line in machines.describe():
        report(line)
    what = f"pulumi up of stack {stack} broke off; "
    if tried:
        what += f"none of its zones has capacity: {', '.join(tried)}; "
    what += _what_runs(machines, report)
    if pulumi_cli.is_locked(result.text):
        return RailheadError(what, hint=pulumi_cli.unlock_hint(stack))
    up, end = Command("up", stack=stack), Command("teardown", destroy=True, stack=stack)
    if has_bucket_conflict(result.text):
        what += "; its bucket_name names a bucket that exists and is in no state of Pulumi"
        option = typed_options({"stack": stack})
        change = f"pulumi config set{option} bucket_name OTHER && "
        more = "   # or remove the bucket, if it is yours, and repeat the command"
        return RailheadError(what, hint=Hint(change, up, more))
    if is_conflict(result.text) and (machines.strays or machines.inventory is None):
        what += "; what a killed `pulumi up` left is in the way"
        ends = Hint(" && ".join(one.end for one in machines.strays)) if machines.strays else end
        return RailheadError(what, hint=Hint(ends, " && ", up))
    kind = NoCapacity if is_no_capacity(result.text) else RailheadError
    return kind(what, hint=Hint(up, "   # continues; to end all of it: ", end))


def _what_runs(machines: StackMachines, report: Reporter) -> str:
    if machines.inventory is None:
        return "it has no machine"
    try:
        status = power.cluster_status(machines.inventory)
    except RailheadError as error:
        return f"{', '.join(machines.inventory.names)} may run: {error.message}"
    power.print_status(status, report)
    running = [n for n, s in status.instance_states.items() if s.state not in STOPPED]
    cost = stop_policy.price(machines.inventory) if running else ""
    return f"{count(len(running), 'machine')} running now{cost}"
