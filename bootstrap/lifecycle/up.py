"""`fab up`: `pulumi up` that says what a break leaves, and goes on in another zone.

A Pulumi program cannot catch a refused machine and go on elsewhere. So after a refusal for
capacity, and only if the cluster had no machine before, what was made is removed, the next of the
configured zones becomes the first, and `pulumi up` runs again. So it does, in the same zone, where
a killed `pulumi up` left something whose name is needed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from railhead.documents.clouds import is_no_capacity

from ..clouds.base import STOPPED
from ..console.output import Reporter, confirm
from ..console.text import count
from ..errors import Command, Hint, RailheadError, UsageError
from ..inventory import pulumi_stack
from . import destroy, power, stack_machines, stop_policy
from .stack_machines import StackMachines

# As in InvalidPermission.Duplicate, InvalidSubnet.Conflict, Resource.AlreadyAssociated, 409.
CONFLICT = re.compile(r"already exists|Already(Exists|Associated)|\.Duplicate|Conflict")


def up(stack: str, report: Reporter, *, yes: bool, refresh: bool) -> None:
    """Make or change the machines of a stack, with Pulumi's own output.

    Args:
        stack: the stack.
        yes: make the changes without a preview and a question.
        refresh: compare Pulumi's state with the cloud first; finds machines that are gone.

    Raises:
        UsageError: the user did not agree; nothing was changed.
        RailheadError: `pulumi up` broke off; the message says what runs and what it costs.
    """
    before = stack_machines.find(stack)
    if not yes:
        _preview(stack, refresh)
    recorded = [machine.id for machine in before.state.machines]
    if removed := stack_machines.remove_unrecorded_deadlines(before, recorded):
        report(f"a killed `pulumi up` left {', '.join(removed)}: removed, and made anew now")
    zones = pulumi_stack.zones(stack)
    done = pulumi_stack.up(stack, refresh=refresh)
    if done.code and _had_none(before, done) and is_conflict(done.text):
        report("what a killed `pulumi up` left is in the way")
        _remove(stack, report)
        done = pulumi_stack.up(stack, refresh=False)
    tried = 1
    while done.code and _may_move(before, done) and tried < len(zones):
        _remove(stack, report)
        first, zones = zones[0], (*zones[1:], zones[0])
        pulumi_stack.set_zones(stack, zones)
        report(f"no capacity in {first}: now in {zones[0]}; `zones` of the stack is set to it")
        done = pulumi_stack.up(stack, refresh=False)
        tried += 1
    if done.code:
        raise _broken(stack, done, zones if tried > 1 else (), report)
    for line in stack_machines.find(stack).describe():
        report(line)


def _preview(stack: str, refresh: bool) -> None:
    """Show the changes and ask."""
    hint = Command("up", yes=True, stack=stack)
    done = pulumi_stack.up(stack, refresh=refresh, preview=True)
    if done.code:
        raise UsageError(f"the preview of stack {stack} failed: nothing was changed")
    if not confirm(f"Make these changes to stack {stack}?", hint=hint):
        raise UsageError("nothing was changed", hint=hint)


def _may_move(before: StackMachines, done: pulumi_stack.Streamed) -> bool:
    """Whether another zone may be tried."""
    return _had_none(before, done) and is_no_capacity(done.text)


def _had_none(before: StackMachines, done: pulumi_stack.Streamed) -> bool:
    """Whether what was made may be removed. Not after Ctrl-C, and not where machines existed
    before, or may have existed because the cloud did not list them: those are not given up."""
    return before.inventory is None and not before.unlisted and not done.interrupted


def is_conflict(text: str) -> bool:
    """Whether Pulumi's output has a refusal because something with this name or place exists."""
    return bool(CONFLICT.search(text))


def _remove(stack: str, report: Reporter) -> None:
    """Remove what a refused `up` has made.

    Raises:
        RailheadError: something is left.
    """
    report("removing what was made")
    lines = destroy.remove_made(stack_machines.find(stack), report)
    if left := [line.text for line in lines if not line.verified]:
        raise RailheadError(
            f"what was made could not be removed: {'; '.join(left)}",
            hint=Command("teardown", destroy=True, stack=stack),
        )


def _broken(
    stack: str, done: pulumi_stack.Streamed, tried: Sequence[str], report: Reporter
) -> RailheadError:
    """The error after a break: what runs now, what it costs, and the commands."""
    found = stack_machines.find(stack)
    for line in found.describe():
        report(line)
    what = f"pulumi up of stack {stack} broke off; "
    if tried:
        what += f"none of its zones has capacity: {', '.join(tried)}; "
    what += _what_runs(found, report)
    if pulumi_stack.is_locked(done.text):
        return RailheadError(what, hint=pulumi_stack.unlock_hint(stack))
    up, end = Command("up", stack=stack), Command("teardown", destroy=True, stack=stack)
    if is_conflict(done.text) and (found.strays or found.inventory is None):
        what += "; what a killed `pulumi up` left is in the way"
        ends = Hint(" && ".join(one.end for one in found.strays)) if found.strays else end
        return RailheadError(what, hint=Hint(ends, " && ", up))
    return RailheadError(what, hint=Hint(up, "   # continues; to end all of it: ", end))


def _what_runs(found: StackMachines, report: Reporter) -> str:
    if found.inventory is None:
        return "no machine of it exists"
    try:
        status = power.cluster_status(found.inventory)
    except RailheadError as error:
        return f"{', '.join(found.inventory.names)} may run: {error.message}"
    power.print_status(status, report)
    running = [n for n, s in status.instance_states.items() if s.state not in STOPPED]
    cost = stop_policy.price(found.inventory) if running else ""
    return f"{count(len(running), 'machine')} of it run now{cost}"
