"""A stack through the pulumi command: reads its machines, config and state; changes and removes
it."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import replace
from functools import cache
from typing import Any

from railhead.documents.codec import decode
from railhead.documents.lazy import dataclass

from ..console.output import print_lines
from ..errors import Command, Hint, RailheadError, UsageError
from . import damaged_state, pulumi_cli, pulumi_lock
from .damaged_state import COPY, Damage
from .document import from_document
from .hosts import Inventory
from .stack_state import MACHINES, StackState, read_state, resources_of

PREVIEW_SECONDS = 300
COST = "the whole cluster: "  # how stacks/program.py begins this line
UP_SECONDS = DESTROY_SECONDS = 3600
DAMAGED = "failed to load checkpoint"
PROTECTED = "because it is protected"
REMOVALS = ("delete", "delete-replaced", "replace")  # operations of a preview
PASSPHRASE = "export PULUMI_CONFIG_PASSPHRASE=...   # or PULUMI_CONFIG_PASSPHRASE_FILE"


class NoMachines(UsageError):
    """Pulumi's state has no machine of a stack, or there is no such stack. That does not mean that
    none exists: the state may be lost."""


def current() -> str | None:
    """The selected stack of this project; None when there is no pulumi, no login, or no selection.

    Raises:
        UsageError: pulumi does not answer.
    """
    if not shutil.which("pulumi") or pulumi_cli.project() is None:
        return None
    process = pulumi_cli.run("stack", "--show-name")
    return process.stdout.strip() or None if process.returncode == 0 else None


def cluster_of(stack: str) -> Inventory:
    """The machines of a stack, as its last `pulumi up` recorded them.

    Raises:
        UsageError: there is no pulumi, no such stack or nothing in it, or the document is not one
            that this Railhead reads.
    """
    inventory = inventory_of(state(stack))
    if inventory is None:
        raise _unfinished(stack)
    return inventory


def up(stack: str, *, refresh: bool, preview: bool = False) -> pulumi_cli.Streamed:
    """`pulumi up` of a stack, or its preview; Pulumi prints to the terminal.

    Raises:
        UsageError: there is no pulumi.
    """
    verb = ["preview"] if preview else ["up", "--yes", "--skip-preview"]
    more = ["--refresh"] if refresh else []
    return pulumi_cli.stream([*verb, "--stack", stack, *more], UP_SECONDS)


def destroy(stack: str) -> None:
    """Remove everything that a stack created; Pulumi prints to the terminal.

    Raises:
        UsageError: there is no pulumi.
        Locked: another command of Pulumi works on the stack; nothing was removed.
        RailheadError: Pulumi failed; its state lists what is left.
    """
    # Without the last option, one resource that cannot be deleted keeps unrelated ones.
    argv = ["destroy", "--yes", "--skip-preview", "--stack", stack, "--continue-on-error"]
    result = pulumi_cli.stream(argv, DESTROY_SECONDS)
    if result.code:
        if pulumi_cli.is_locked(result.text):
            raise pulumi_lock.locked(stack, result.text, Command("teardown", destroy=True))
        if DAMAGED in result.text:
            damage = damaged_state.find(stack)
            raise RailheadError(damage.message, hint=damage.hint)
        retry = f"pulumi destroy --continue-on-error --stack {shlex.quote(stack)}"
        if PROTECTED in result.text:
            retry = f"{unprotect(stack)} && {retry}"
        raise RailheadError(f"pulumi could not destroy all of {stack}", hint=retry)


def unprotect(stack: str) -> str:
    """The command after which Pulumi deletes what the program, or its user, has protected."""
    return f"pulumi state unprotect --all --yes --stack {shlex.quote(stack)}"


def forget(stack: str) -> str:
    """The commands that remove the state of a stack of which nothing exists; they keep its
    config."""
    quoted = shlex.quote(stack)
    return f"pulumi stack rm --force --preserve-config --yes {quoted} && pulumi stack init {quoted}"


def forget_resource(stack: str, urn: str) -> str:
    """The command that removes one resource from a stack's state, and nothing from the cloud."""
    return f"pulumi state delete --yes --stack {shlex.quote(stack)} {shlex.quote(urn)}"


@dataclass(frozen=True)
class Setting:
    """A key of a stack's config; a secret's value is not shown."""

    value: str = ""


@dataclass(frozen=True)
class Diagnostic:
    """A message in a preview."""

    severity: str = ""
    message: str = ""


@dataclass(frozen=True)
class OldState:
    """A resource before a change."""

    type: str = ""
    id: str = ""


@dataclass(frozen=True)
class Step:
    """What would happen to one resource; `oldState` is null for a new one. `diffReasons` are the
    properties that change, at their first level."""

    op: str = ""
    oldState: OldState | None = None
    diffReasons: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Preview:
    """The part of `pulumi preview --json` that is read here."""

    diagnostics: tuple[Diagnostic, ...] = ()
    steps: tuple[Step, ...] = ()


def config(stack: str) -> dict[str, str]:
    """The stack's config: keys of this project, without its namespace.

    Raises:
        UsageError: there is no such stack, or Pulumi does not answer.
    """
    process = pulumi_cli.run("config", "--json", "--stack", stack)
    if process.returncode:
        raise _error(stack, process.stderr)
    subject = f"the config of stack {stack}"
    printed = _json(stack, process.stdout)
    settings = decode(dict[str, Setting], printed, what=subject, error=UsageError)
    return {key.rpartition(":")[2]: setting.value for key, setting in settings.items()}


def preview_report(stack: str) -> tuple[list[str], str]:
    """The errors of a preview, which creates nothing, and its line about the cost; each is empty if
    there is none."""
    preview, errors = _preview(stack)
    messages = (diagnostic.message for diagnostic in preview.diagnostics)
    cost = next((message for message in messages if message.startswith(COST)), "")
    return errors, cost.strip().removeprefix(COST)


@dataclass(frozen=True)
class MachineChanges:
    """The ids of the machines that an `up` would delete, or replace by new ones, and of those that
    it would stop to change them, and start again."""

    removed: tuple[str, ...]
    stopped: tuple[str, ...]


def machine_changes(stack: str, *, refresh: bool) -> MachineChanges:
    """What an `up` would do to the machines of a stack.

    Raises:
        UsageError: the preview fails.
    """
    preview, errors = _preview(stack, *(["--refresh"] if refresh else []))
    if errors:
        raise UsageError(
            f"the preview of stack {stack} failed: nothing was changed: {'; '.join(errors)}",
            hint=f"pulumi preview --stack {shlex.quote(stack)}",
        )
    steps = [(s, s.oldState) for s in preview.steps if s.oldState and s.oldState.type in MACHINES]
    removed = {old.id for step, old in steps if step.op in REMOVALS}
    stopped = {
        old.id
        for step, old in steps
        if step.op == "update" and MACHINES[old.type].stops_for(step.diffReasons or ())
    }
    return MachineChanges(tuple(sorted(removed)), tuple(sorted(stopped)))


def _preview(stack: str, *args: str) -> tuple[Preview, list[str]]:
    """A preview, and its errors."""
    process = pulumi_cli.run("preview", "--json", "--stack", stack, *args, seconds=PREVIEW_SECONDS)
    try:
        preview = decode(Preview, json.loads(process.stdout))
    except ValueError:
        unknown = f"pulumi printed no JSON: {process.stdout[:200]!r}"
        return Preview(), [_error(stack, process.stderr).message if process.returncode else unknown]
    errors = [d.message for d in preview.diagnostics if d.severity == "error"]
    if process.returncode and not errors:
        errors = [_error(stack, process.stderr).message]
    return preview, errors


def set_config(stack: str, key: str, value: str) -> None:
    """Write a key of the stack's config.

    Raises:
        RailheadError: Pulumi refuses.
    """
    process = pulumi_cli.run("config", "set", key, value, "--stack", stack)
    if process.returncode:
        raise RailheadError(
            f"stack {stack}: {key} cannot be set: {process.stderr.strip()}",
            hint=shlex.join(["pulumi", "config", "set", key, value, "--stack", stack]),
        )


def set_region(stack: str, region: str) -> None:
    """Write another region, and remove the zones, which belong to the previous region. Raises as
    `set_config`."""
    set_config(stack, "region", region)
    pulumi_cli.run("config", "rm", "zones", "--stack", stack)


def state(stack: str) -> StackState:
    """What Pulumi's state has of a stack; it knows machines that no output has.

    Raises:
        UsageError: there is no pulumi, no such stack, or Pulumi does not answer; or its program
            has several clusters.
    """
    recorded = any_state(stack)
    if recorded.others:
        names = " and ".join([str(recorded.cluster), *recorded.others])
        raise UsageError(
            f"stack {stack} has the clusters {names}; this command works on stacks with one",
            hint=f"pulumi stack output --stack {shlex.quote(stack)}   # their hosts, for --hosts",
        )
    return recorded


def any_state(stack: str) -> StackState:
    """As `state`, also of a stack with several clusters."""
    exported = _exported(stack)
    return replace(read_state(stack, exported), is_copy=COPY in exported)


def inventory_of(state: StackState) -> Inventory | None:
    """The inventory of a stack's output `cluster`; None if no `up` has finished.

    Raises:
        UsageError: the document is not one that this Railhead reads.
    """
    if state.document is None:
        return None
    try:
        return replace(from_document(state.document), stack=state.stack)
    except UsageError as error:
        again = f"pulumi up --stack {shlex.quote(state.stack)}   # writes it anew"
        hint = error.next if error.hint else again
        raise UsageError(f"stack {state.stack}: {error.message}", hint=hint) from None


def resources(stack: str) -> list[str]:
    """The types of the resources in Pulumi's state, except Pulumi's own types.

    Raises:
        RailheadError: Pulumi does not answer.
    """
    return list(read_state(stack, _exported(stack)).kinds)


def _exported(stack: str) -> Any:
    """Pulumi's state; its newest whole copy if the file itself is damaged."""
    process = pulumi_cli.run("stack", "export", "--stack", stack)
    if DAMAGED in process.stderr:
        damage = damaged_state.find(stack)
        if damage.copy is None:
            raise _damaged(damage)
        _say(damage.message, f"  next: {damage.hint}")
        return damage.exported()
    if process.returncode:
        raise _error(stack, process.stderr)
    return _json(stack, process.stdout)


def _json(stack: str, printed: str) -> Any:
    try:
        return json.loads(printed)
    except json.JSONDecodeError:
        raise UsageError(f"stack {stack}: pulumi printed no JSON: {printed[:200]!r}") from None


def _error(stack: str, stderr: str) -> UsageError:
    """The error for Pulumi's stderr, with the next command as its hint."""
    if "passphrase must be set" in stderr:
        return UsageError(f"stack {stack} is locked by a passphrase", hint=PASSPHRASE)
    if "incorrect passphrase" in stderr:
        return UsageError(f"the passphrase is not that of stack {stack}", hint=PASSPHRASE)
    if "no Pulumi.yaml project file" in stderr:
        return UsageError(
            f"stack {stack}: no Pulumi.yaml of Railhead is in this folder or one above it",
            hint=Hint(Command("init"), "   # in the folder of your stacks"),
        )
    if "no stack named" in stderr:
        stacks = ", ".join(_stacks()) or "none"
        init = f"pulumi stack init {shlex.quote(stack)}"
        hint = Hint(Command("leaks"), f"   # if its state is lost; a new stack: {init}")
        return NoMachines(f"there is no stack {stack!r}; there are: {stacks}", hint=hint)
    if DAMAGED in stderr:
        return _damaged(damaged_state.find(stack))
    if "PULUMI_ACCESS_TOKEN" in stderr or "pulumi login" in stderr:
        return UsageError(f"stack {stack}: {pulumi_cli.LOGGED_OUT}", hint=pulumi_cli.LOG_IN)
    return UsageError(f"stack {stack}: pulumi: {_last_line(stderr)}", hint="pulumi stack ls")


def _last_line(stderr: str) -> str:
    return (stderr.strip().splitlines() or ["(no output)"])[-1]


def refuse_damaged(state: StackState) -> None:
    """UsageError if Pulumi cannot read a state, and so cannot change its stack."""
    if state.is_copy:
        raise _damaged(damaged_state.find(state.stack))


@cache
def _say(*lines: str) -> None:
    """Print lines once in a command, which reads a state several times."""
    print_lines(*lines)


def _damaged(damage: Damage) -> UsageError:
    """The error for a damaged state; NoMachines if no copy of it has the machines."""
    kind = NoMachines if damage.is_lost else UsageError
    return kind(damage.message, hint=damage.hint)


def _unfinished(stack: str) -> UsageError:
    """The error for a stack without a document: an interrupted `up` may have created machines."""
    created = [r for r in resources_of(stack, _exported(stack)) if r.type in MACHINES]
    if machines := [str(r.id) for r in created]:
        return UsageError(
            f"the last pulumi up of stack {stack} broke off: {', '.join(machines)} exist, "
            "and cost money",
            hint=Hint(
                Command("up", stack=stack),
                "   # or: ",
                Command("teardown", destroy=True, stack=stack),
            ),
        )
    return no_machines(stack)


def no_machines(stack: str) -> NoMachines:
    """The error for a command on the machines of a stack that has none."""
    quoted = shlex.quote(stack)
    return NoMachines(
        f"stack {stack} has no machines: nothing was created, or everything was destroyed",
        hint=f"pulumi up --stack {quoted}   # or name hosts: --hosts user@first",
    )


@dataclass(frozen=True)
class ListedStack:
    """A stack in the output of `pulumi stack ls`; not every backend reports `resourceCount`, and
    Pulumi Cloud does not count what an `up` in progress has created."""

    name: str
    resourceCount: int | None = None
    updateInProgress: bool = False


def _stacks() -> list[str]:
    """The names of this project's stacks; empty when Pulumi does not answer."""
    process = pulumi_cli.run("stack", "ls", "--json")
    try:
        return [stack.name for stack in _listed(process.stdout)]
    except ValueError:
        return []


def _listed(printed: str) -> tuple[ListedStack, ...]:
    return decode(tuple[ListedStack, ...], json.loads(printed or "[]"))


def all_stacks() -> list[str]:
    """The names of the stacks of all projects of this backend that have resources.

    Raises:
        UsageError: there is no pulumi, or it does not answer.
    """
    process = pulumi_cli.run("stack", "ls", "--all", "--json")
    if process.returncode and (names := damaged_state.stacks()):
        return names
    if process.returncode:
        why = f"the stacks of the Pulumi backend: {_last_line(process.stderr)}"
        raise UsageError(why, hint="pulumi login")
    try:
        listed = _listed(process.stdout)
    except ValueError:
        why = f"pulumi stack ls printed no list of stacks: {process.stdout[:200]!r}"
        raise UsageError(why, hint="pulumi stack ls --all") from None
    return [s.name for s in listed if s.resourceCount != 0 or s.updateInProgress]
