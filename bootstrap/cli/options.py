"""The options of all tasks: what each one's help says, and what its text means.

Every option is a string, a list or a switch; what a string means is decided in one place per word.
Modules are imported where they are used, so that `fab --list` stays quick.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke import Task

from bootstrap.cli.executor import report_errors

if TYPE_CHECKING:
    from bootstrap.inventory.hosts import Inventory
    from bootstrap.plan.cluster import Options
    from bootstrap.runs.start import Run

HELP = {
    "hosts": "[user@]host[:port][*slots],... ; else a stack's, or the last command's",
    "stack": "a Pulumi stack; by default the selected one",
    "start": "start a stack's machines that do not run",
    "hours": "hours from now until the cloud stops the machines by itself",
    "slots": "ranks per host under Horovod; by default one per GPU, else one",
    "peer-address": "the hosts' addresses for each other, in order: 10.0.0.1,10.0.0.2",
    "requirements": "a file of more packages, resolved together with the runtime's pins",
    "runtime": "which TensorFlow: tf2.18 (with Horovod) or tf2.21; by default by GPU and launcher",
    "system": "allow system changes (apt, driver, restart) on machines that were only named",
    "allow-mixed": "allow GPUs of several types in one cluster",
    "json": "print the plan as JSON, and nothing else on stdout",
    "launcher": "horovod or tensorflow",
    "strategy": "with --launcher tensorflow: multiworker, mirrored or one-device",
    "preset": "named settings of our own training: digits, smoke, ...",
    "set": "one setting of our own training, name=value; may be repeated",
    "script": "your own program instead of our training",
    "workdir": "what is shipped with the script, and where it runs; by default its folder",
    "args": "the script's arguments, split as a shell would: --args='--epochs 3'",
    "keras": "2 or 3; by default 2 for scripts on several workers, else 3",
    "env": "a variable for the program, NAME=value; may be repeated",
    "env-file": "a file of NAME=value lines",
    "secret": "a variable taken from this shell, shown and logged nowhere; may be repeated",
    "outputs": "a pattern for the files that come back, by default all; may be repeated",
    "detach": "start the run and leave",
    "keep": "minutes that a stack's machines run on after a failure, by default 20",
    "no-stop": "a stack's machines are not stopped when the run has ended",
    "max-hours": "the run is cancelled when it has taken so long",
    "run": "a run's id; by default the last",
    "yes": "do not ask",
    "purge": "also remove ~/.railhead from the hosts",
    "discard-results": "with --purge or --destroy: also when results were not fetched",
    "destroy": "also remove the homes of local hosts, or all that the stack made",
    "with-bucket": "with --destroy: also remove all that is in the stack's bucket",
    "rank": "whose log: a rank's number, mpirun or supervisor",
    "cmd": "a shell command",
    "host": "a host's name",
}


def task(
    *, lists: tuple[str, ...] = (), name: str | None = None, first: str | None = None
) -> Callable[[Callable[..., None]], Task[Any]]:
    """An Invoke task with our help texts and our way of telling errors."""

    def made(body: Callable[..., None]) -> Task[Any]:
        words = {
            w.replace("_", "-") for w in body.__code__.co_varnames[: body.__code__.co_argcount]
        }
        return Task(
            report_errors(body),
            name=name,
            help={word: text for word, text in HELP.items() if word in words},
            iterable=list(lists),
            positional=[first] if first else [],
            auto_shortflags=False,
        )

    return made


def inventory_of(
    hosts: str | None, stack: str | None, slots: str | None = None, start: bool = False
) -> Inventory:
    """The hosts that a task is about; a stack's machines all run."""
    from bootstrap.inventory.hosts import whole_number
    from bootstrap.workflows import journey

    number = whole_number(slots, "--slots", 1, 1024)
    return journey.hosts_of(hosts, slots=number, stack=stack, start=start)


def machines_of(hosts: str | None, stack: str | None) -> Inventory:
    """The hosts that a task is about, whether they run or not."""
    from bootstrap.workflows import journey

    return journey.look(hosts, stack=stack).inventory


def options_of(
    system: bool,
    requirements: str | None,
    peer_address: str | None,
    runtime: str | None,
    launcher: str | None = None,
    *,
    mixed: bool,
) -> Options:
    """What the hosts are surveyed with; UsageError for a word that means nothing."""
    from bootstrap.inventory.hosts import check_peer_address
    from bootstrap.plan.cluster import Options
    from bootstrap.plan.runtimes import row_named

    if runtime is not None:
        row_named(runtime, launcher)
    named = [a.strip() for a in (peer_address or "").split(",")]
    addresses = tuple(check_peer_address(a) for a in named if a)
    asked = Path(requirements) if requirements else None
    return Options(system, asked, addresses, launcher, runtime, mixed, _archive())


def _archive() -> str:
    """The archive of Debian that the shell names; UsageError for what is no address."""
    from bootstrap.errors import UsageError

    named = os.environ.get("DEBIAN_MIRROR", "")
    if named and not re.fullmatch(r"https?://[^\s@/]+(/\S*)?", named):
        rule = "an address like http://archive.example/debian, without a name and password"
        raise UsageError(f"DEBIAN_MIRROR: {rule}")
    return named


def run_of(inventory: Inventory, run_id: str | None) -> Run:
    """The run that a task is about; by default the last of these hosts."""
    from bootstrap.inventory import local_state
    from bootstrap.runs.start import Run

    return Run(*local_state.find_run(inventory, run_id))
