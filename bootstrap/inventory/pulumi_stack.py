"""Runs the pulumi command: reads a stack and its machines, changes it, destroys it.

It never waits at a prompt: stdin is closed, and an error names the variable to set.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from railhead.documents.codec import decode
from railhead.documents.installation import IS_WHEEL

from ..console import log
from ..errors import Command, Hint, RailheadError, UsageError
from .document import from_document
from .hosts import Inventory
from .stack_state import MACHINES, StackState, read_state, resources_of

CLONE = None if IS_WHEEL else Path(__file__).parents[2]  # its Pulumi.yaml is for every folder
PROJECT_FILE = "Pulumi.yaml"
OLDEST = "3.259.0"  # stacks/__main__.py needs it
PREVIEW_SECONDS = 300
SECONDS = 30  # timeout of a query; a remote backend needs several seconds
UP_SECONDS = DESTROY_SECONDS = 3600
END_SECONDS = 900  # for what Pulumi has begun when it is interrupted
REMOVALS = ("delete", "delete-replaced", "replace")  # operations of a preview
# A hook of stacks/place.py; Pulumi prints it first as it comes, on one line, then as a whole.
REFUSAL = re.compile(r'before hook "cluster-\w+" failed: ([^\n]+)\n +next: ([^\n]+)')
PASSPHRASE = "export PULUMI_CONFIG_PASSPHRASE=...   # or PULUMI_CONFIG_PASSPHRASE_FILE"
INSTALL = "https://www.pulumi.com/docs/install/   # then: pulumi login --local"


class NoMachines(UsageError):
    """Pulumi's state has no machine of a stack, or there is no such stack. That does not mean that
    none exists: the state may be lost."""


def current() -> str | None:
    """The selected stack of this project; None when there is no pulumi, no login, or no selection.

    Raises:
        UsageError: pulumi does not answer.
    """
    if not shutil.which("pulumi") or project() is None:
        return None
    process = _pulumi("stack", "--show-name")
    return process.stdout.strip() or None if process.returncode == 0 else None


def project() -> Path | None:
    """The folder of the Pulumi project with the stacks: the working directory or a folder above
    it, otherwise the clone. None where there is none; other Pulumi projects do not count."""
    here = Path.cwd()
    places = [here, *here.parents, *([CLONE] if CLONE else [])]
    return next((place for place in places if _is_railhead(place / PROJECT_FILE)), None)


def _is_railhead(file: Path) -> bool:
    try:
        return "name: railhead" in file.read_text().splitlines()
    except (OSError, ValueError):
        return False


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


@dataclass(frozen=True)
class Streamed:
    """How a Pulumi command ended, what it printed, and whether it was interrupted by the user."""

    code: int
    text: str
    interrupted: bool = False


def up(stack: str, *, refresh: bool, preview: bool = False) -> Streamed:
    """`pulumi up` of a stack, or its preview; Pulumi prints to the terminal.

    Raises:
        UsageError: there is no pulumi.
    """
    verb = ["preview"] if preview else ["up", "--yes", "--skip-preview"]
    more = ["--refresh"] if refresh else []
    return _stream([*verb, "--stack", stack, *more], stack, UP_SECONDS)


def destroy(stack: str) -> None:
    """Remove everything that a stack created; Pulumi prints to the terminal.

    Raises:
        UsageError: there is no pulumi.
        RailheadError: Pulumi failed; its state lists what is left.
    """
    argv = ["destroy", "--yes", "--skip-preview", "--stack", stack]
    result = _stream(argv, stack, DESTROY_SECONDS)
    if result.code:
        retry = f"pulumi destroy --stack {shlex.quote(stack)}"
        hint = unlock_hint(stack) if is_locked(result.text) else retry
        raise RailheadError(f"pulumi could not destroy all of {stack}", hint=hint)


def is_locked(text: str) -> bool:
    """Whether Pulumi refused because another command of the stack runs, or was killed."""
    return "the stack is currently locked" in text or "Another update is currently in" in text


def refusal(text: str) -> UsageError | None:
    """The program's own refusal in Pulumi's output, with its next command; None where there is
    none. It comes before any change."""
    match = REFUSAL.search(text)
    return UsageError(match[1], hint=match[2]) if match else None


def unlock_hint(stack: str) -> str:
    """The command after a killed Pulumi."""
    quoted = shlex.quote(stack)
    return f"pulumi cancel --yes --stack {quoted}   # if no other pulumi works on it; then again"


def forget(stack: str) -> str:
    """The commands that remove a stack's state, and keep its config: nothing of it exists."""
    quoted = shlex.quote(stack)
    return f"pulumi stack rm --force --preserve-config --yes {quoted} && pulumi stack init {quoted}"


@dataclass(frozen=True)
class Setting:
    """A key of a stack's config; a secret's value is not shown."""

    value: str = ""


@dataclass(frozen=True)
class Credentials:
    """The part of Pulumi's file of credentials that is read here: the address of the backend."""

    current: str = ""


def backend() -> str | None:
    """The address of the backend that Pulumi uses; None where it has none. It is read without the
    pulumi command, which takes a second."""
    if address := os.environ.get("PULUMI_BACKEND_URL"):
        return address
    folder = os.environ.get("PULUMI_HOME")
    path = (Path(folder) if folder else Path.home() / ".pulumi") / "credentials.json"
    try:
        return decode(Credentials, json.loads(path.read_text())).current or None
    except (OSError, ValueError):
        return None


@dataclass(frozen=True)
class Login:
    """Who is logged in to which backend."""

    user: str
    url: str = ""


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
    """What would happen to one resource; `oldState` is null for a new one."""

    op: str = ""
    oldState: OldState | None = None


@dataclass(frozen=True)
class Preview:
    """The part of `pulumi preview --json` that is read here."""

    diagnostics: tuple[Diagnostic, ...] = ()
    steps: tuple[Step, ...] = ()


def version() -> str:
    """The version of the pulumi command; empty where it does not say."""
    return _pulumi("version").stdout.strip()


def login() -> Login:
    """Who is logged in.

    Raises:
        UsageError: nobody is.
    """
    process = _pulumi("whoami", "--json")
    if process.returncode:
        raise UsageError("you are not logged in to Pulumi", hint="pulumi login")
    what = "the answer of pulumi whoami"
    return decode(Login, json.loads(process.stdout), what=what, error=UsageError)


def config(stack: str) -> dict[str, str]:
    """The stack's config: keys of this project, without its namespace.

    Raises:
        UsageError: there is no such stack, or Pulumi does not answer.
    """
    process = _pulumi("config", "--json", "--stack", stack)
    if process.returncode:
        raise _error(stack, process.stderr)
    what = f"the config of stack {stack}"
    printed = _json(stack, process.stdout)
    settings = decode(dict[str, Setting], printed, what=what, error=UsageError)
    return {key.rpartition(":")[2]: setting.value for key, setting in settings.items()}


def preview_errors(stack: str) -> list[str]:
    """The errors of a preview, which creates nothing; empty where it succeeds."""
    return _preview(stack)[1]


def removed_machines(stack: str, *, refresh: bool) -> list[str]:
    """The ids of the machines that an `up` would delete, or replace by new ones.

    Raises:
        UsageError: the preview fails.
    """
    preview, errors = _preview(stack, *(["--refresh"] if refresh else []))
    if errors:
        raise UsageError(
            f"the preview of stack {stack} failed: nothing was changed: {'; '.join(errors)}",
            hint=f"pulumi preview --stack {shlex.quote(stack)}",
        )
    old = [step.oldState for step in preview.steps if step.op in REMOVALS]
    return sorted({one.id for one in old if one and one.type in MACHINES})


def _preview(stack: str, *args: str) -> tuple[Preview, list[str]]:
    """A preview, and its errors."""
    process = _pulumi("preview", "--json", "--stack", stack, *args, seconds=PREVIEW_SECONDS)
    try:
        preview = decode(Preview, json.loads(process.stdout))
    except ValueError:
        preview = Preview()
    errors = [one.message for one in preview.diagnostics if one.severity == "error"]
    if process.returncode and not errors:
        errors = [_error(stack, process.stderr).message]
    return preview, errors


def set_zones(stack: str, zones: Sequence[str]) -> None:
    """Write the zones into the stack's config.

    Raises:
        RailheadError: Pulumi refuses.
    """
    process = _pulumi("config", "set", "zones", ",".join(zones), "--stack", stack)
    if process.returncode:
        raise RailheadError(f"stack {stack}: zones cannot be set: {process.stderr.strip()}")


def _stream(argv: Sequence[str], stack: str, seconds: float) -> Streamed:
    """Run pulumi; each line is printed as it comes. An interrupt reaches Pulumi too, which ends
    what it has begun: this waits for it. After `seconds` Pulumi is terminated."""
    if not shutil.which("pulumi"):
        raise UsageError(f"stack {stack}: there is no pulumi on PATH", hint=INSTALL)
    command = ["pulumi", *argv, "--non-interactive"]
    with log.started(
        command, cwd=project() or "/", env=_environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    ) as process:  # fmt: skip
        bound = threading.Timer(seconds, _end, [process])
        bound.start()
        lines: list[str] = []
        try:
            interrupted = _print_until_end(process, lines)
        finally:
            bound.cancel()
    return Streamed(process.returncode, "".join(lines), interrupted)


def _end(process: subprocess.Popen[str]) -> None:
    """Interrupt Pulumi, which then ends what it has begun; the second time it ends at once."""
    for sign in (signal.SIGINT, signal.SIGINT, signal.SIGKILL):
        process.send_signal(sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
            return


def _print_until_end(process: subprocess.Popen[str], lines: list[str]) -> bool:
    """Print the lines of a process until it ends, and add them to `lines`. The first interrupt
    does not end the wait; returns whether there was one."""
    assert process.stdout
    interrupted = False
    while True:
        try:
            for line in process.stdout:
                lines.append(line)
                print(line, end="", flush=True)
            process.wait()
            return interrupted
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True


def state(stack: str) -> StackState:
    """What Pulumi's state has of a stack; it knows machines that no output has.

    Raises:
        UsageError: there is no pulumi, no such stack, or Pulumi does not answer.
    """
    if not shutil.which("pulumi"):
        raise UsageError(f"--stack {stack}: there is no pulumi on PATH", hint=INSTALL)
    return read_state(stack, _exported(stack))


def inventory_of(state: StackState) -> Inventory | None:
    """The inventory of a stack's output `cluster`; None where no `up` came to its end.

    Raises:
        UsageError: the document is not one that this Railhead reads.
    """
    return None if state.document is None else _inventory(state.stack, state.document)


def resources(stack: str) -> list[str]:
    """The types of the resources in Pulumi's state, except Pulumi's own types.

    Raises:
        RailheadError: Pulumi does not answer.
    """
    return list(read_state(stack, _exported(stack)).kinds)


def _exported(stack: str) -> Any:
    """Pulumi's state."""
    process = _pulumi("stack", "export", "--stack", stack)
    if process.returncode:
        raise _error(stack, process.stderr)
    return _json(stack, process.stdout)


def _json(stack: str, printed: str) -> Any:
    try:
        return json.loads(printed)
    except json.JSONDecodeError:
        raise UsageError(f"stack {stack}: pulumi printed no JSON: {printed[:200]!r}") from None


def _inventory(stack: str, document: Any) -> Inventory:
    try:
        return replace(from_document(document), stack=stack)
    except UsageError as error:
        hint = (
            error.next
            if error.hint
            else f"pulumi up --stack {shlex.quote(stack)}   # writes it anew"
        )
        raise UsageError(f"stack {stack}: {error.message}", hint=hint) from None


def _pulumi(*args: str, seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    argv = ["pulumi", *args, "--non-interactive"]
    seconds = SECONDS if seconds is None else seconds
    try:
        return log.run(
            argv, cwd=project() or "/", env=_environment(), stdin=subprocess.DEVNULL,
            capture_output=True, timeout=seconds,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"pulumi does not answer within {seconds:.0f} s: {shlex.join(argv)}",
            hint="pulumi whoami   # or name the hosts by --hosts",
        ) from None


def _environment() -> dict[str, str]:
    return os.environ | {"PULUMI_SKIP_UPDATE_CHECK": "true", "NO_COLOR": "1"}


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
        hint = f"pulumi stack init {shlex.quote(stack)}"
        return NoMachines(f"there is no stack {stack!r}; there are: {stacks}", hint=hint)
    if "failed to load checkpoint" in stderr:
        return UsageError(
            f"Pulumi's state of stack {stack} cannot be read: Pulumi was killed while it wrote it; "
            "machines may run",
            hint=Hint(
                f"remove {stack}.json.attrs, in .pulumi/stacks of Pulumi's folder: it is "
                "damaged, and Pulumi does not need it; then: ",
                Command("status", stack=stack),
            ),
        )
    if "PULUMI_ACCESS_TOKEN" in stderr or "pulumi login" in stderr:
        return UsageError(f"stack {stack}: you are not logged in to Pulumi", hint="pulumi login")
    last = (stderr.strip().splitlines() or ["(no output)"])[-1]
    return UsageError(f"stack {stack}: pulumi: {last}", hint="pulumi stack ls")


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
    process = _pulumi("stack", "ls", "--json")
    try:
        listed = decode(tuple[ListedStack, ...], json.loads(process.stdout or "[]"))
        return [stack.name for stack in listed]
    except ValueError:
        return []


def all_stacks() -> list[str]:
    """The names of the stacks of all projects of this backend that have resources.

    Raises:
        UsageError: there is no pulumi, or it does not answer.
    """
    if not shutil.which("pulumi"):
        raise UsageError("there is no pulumi on PATH", hint=INSTALL)
    process = _pulumi("stack", "ls", "--all", "--json")
    if process.returncode:
        last = (process.stderr.strip().splitlines() or ["(no output)"])[-1]
        raise UsageError(f"the stacks of the Pulumi backend: {last}", hint="pulumi login")
    try:
        listed = decode(tuple[ListedStack, ...], json.loads(process.stdout or "[]"))
    except ValueError:
        what = f"pulumi stack ls printed no list of stacks: {process.stdout[:200]!r}"
        raise UsageError(what, hint="pulumi stack ls --all") from None
    return [s.name for s in listed if s.resourceCount != 0 or s.updateInProgress]
