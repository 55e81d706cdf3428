"""What a person types: each task checks its words, names a journey and prints.

Every option is a string or a switch; what a string means is decided in one place per word.
Modules are imported where they are used, so that `fab --list` stays quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke import Context, Task

from bootstrap.program import told_well
from bootstrap.voice import for_programs, say

if TYPE_CHECKING:
    from bootstrap.inventory import Inventory
    from bootstrap.run import Run
    from bootstrap.survey import Options

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
            told_well(body),
            name=name,
            help={word: text for word, text in HELP.items() if word in words},
            iterable=list(lists),
            positional=[first] if first else [],
            auto_shortflags=False,
        )

    return made


def _inventory(
    hosts: str | None, stack: str | None, slots: str | None = None, start: bool = False
) -> Inventory:
    """The hosts that a task is about; a stack's machines all run."""
    from bootstrap import journey
    from bootstrap.inventory import whole_number

    number = whole_number(slots, "--slots", 1, 1024)
    return journey.hosts_of(hosts, slots=number, stack=stack, start=start)


def _machines(hosts: str | None, stack: str | None) -> Inventory:
    """The hosts that a task is about, whether they run or not."""
    from bootstrap import journey

    return journey.look(hosts, stack=stack).inventory


def _options(
    system: bool,
    requirements: str | None,
    peer_address: str | None,
    runtime: str | None,
    launcher: str | None = None,
    *,
    mixed: bool,
) -> Options:
    from bootstrap.inventory import check_peer_address
    from bootstrap.runtimes import row_named
    from bootstrap.survey import Options

    if runtime is not None:
        row_named(runtime, launcher)

    named = [a.strip() for a in (peer_address or "").split(",")]
    addresses = tuple(check_peer_address(a) for a in named if a)
    asked = Path(requirements) if requirements else None
    return Options(system, asked, addresses, launcher=launcher, runtime=runtime, allow_mixed=mixed)


def _find(inventory: Inventory, run_id: str | None) -> Run:
    from bootstrap import record
    from bootstrap.run import Run

    return Run(*record.find_run(inventory, run_id))


TRAIN_LISTS = ("set", "env", "secret", "outputs")


@task(lists=TRAIN_LISTS)
def train(
    c: Context,
    hosts: str | None = None,
    stack: str | None = None,
    launcher: str = "horovod",
    strategy: str | None = None,
    preset: str | None = None,
    set: list[str] | None = None,
    script: str | None = None,
    workdir: str | None = None,
    args: str | None = None,
    keras: str | None = None,
    env: list[str] | None = None,
    env_file: str | None = None,
    secret: list[str] | None = None,
    outputs: list[str] | None = None,
    requirements: str | None = None,
    runtime: str | None = None,
    slots: str | None = None,
    peer_address: str | None = None,
    system: bool = False,
    allow_mixed: bool = False,
    detach: bool = False,
    keep: str | None = None,
    no_stop: bool = False,
    max_hours: str | None = None,
    start: bool = False,
) -> None:
    """Train on the hosts: make them ready, run, show progress, bring the results here."""
    from bootstrap import journey
    from bootstrap.asked import Words, read_words
    from bootstrap.machines import read_ending

    ending = read_ending(keep, no_stop, max_hours)
    words = Words(
        launcher, strategy, preset, tuple(set or ()), script, workdir, args, keras,
        tuple(env or ()), env_file, tuple(secret or ()), tuple(outputs or ()),
    )  # fmt: skip
    asked = read_words(words)
    options = _options(system, requirements, peer_address, runtime, launcher, mixed=allow_mixed)
    trip = journey.Trip(asked, options, Path.cwd() / "results", detach, ending)
    journey.train(_inventory(hosts, stack, slots, start), trip)


@task()
def plan(
    c: Context,
    hosts: str | None = None,
    stack: str | None = None,
    requirements: str | None = None,
    runtime: str | None = None,
    peer_address: str | None = None,
    system: bool = False,
    allow_mixed: bool = False,
    json: bool = False,
) -> None:
    """Print every step that bootstrap would do on each host, and why; changes nothing."""
    from bootstrap import journey

    options = _options(system, requirements, peer_address, runtime, mixed=allow_mixed)
    with for_programs(json) as out:
        journey.plan(_inventory(hosts, stack), options, out)


@task()
def bootstrap(
    c: Context,
    hosts: str | None = None,
    stack: str | None = None,
    requirements: str | None = None,
    runtime: str | None = None,
    peer_address: str | None = None,
    system: bool = False,
    allow_mixed: bool = False,
    json: bool = False,
) -> None:
    """Make the hosts ready: runtime, Horovod, keys. A second time changes nothing."""
    from bootstrap import journey

    options = _options(system, requirements, peer_address, runtime, mixed=allow_mixed)
    with for_programs(json) as out:
        journey.bootstrap(_inventory(hosts, stack), options, out)


@task()
def health(
    c: Context,
    hosts: str | None = None,
    stack: str | None = None,
    requirements: str | None = None,
    runtime: str | None = None,
    slots: str | None = None,
    peer_address: str | None = None,
) -> None:
    """Check GPUs, TensorFlow, links, ports, clocks and room before a run; ends with 1 if unfit."""
    from bootstrap import journey

    options = _options(False, requirements, peer_address, runtime, mixed=True)
    journey.health(_inventory(hosts, stack, slots), options)


@task()
def status(
    c: Context, hosts: str | None = None, stack: str | None = None, run: str | None = None
) -> None:
    """Where the hosts and the last run stand, asked of the hosts now."""
    from bootstrap import journey, status

    status.tell(journey.look(hosts, stack=stack), run)


@task()
def logs(
    c: Context,
    hosts: str | None = None,
    stack: str | None = None,
    run: str | None = None,
    rank: str = "0",
) -> None:
    """Print a rank's log as it is on the chief now."""
    from bootstrap import watch

    inventory = _inventory(hosts, stack)
    watch.logs(inventory, _find(inventory, run), rank)


@task()
def attach(
    c: Context, hosts: str | None = None, stack: str | None = None, run: str | None = None
) -> None:
    """Watch a run, then fetch its results. Ctrl-C detaches; the run goes on."""
    from bootstrap import watch

    inventory = _inventory(hosts, stack)
    watch.attach(inventory, _find(inventory, run))


@task()
def fetch(
    c: Context, hosts: str | None = None, stack: str | None = None, run: str | None = None
) -> None:
    """Bring a run's results here, as far as there are any."""
    from bootstrap import journey, watch

    seen = journey.look(hosts, stack=stack)
    watch.fetch(seen, _find(seen.inventory, run))


@task()
def cancel(
    c: Context, hosts: str | None = None, stack: str | None = None, run: str | None = None
) -> None:
    """End a run on every host, and verify that nothing of it is left."""
    from bootstrap import watch

    inventory = _inventory(hosts, stack)
    watch.end(inventory, _find(inventory, run))


@task()
def teardown(
    c: Context,
    hosts: str | None = None,
    stack: str | None = None,
    purge: bool = False,
    discard_results: bool = False,
    destroy: bool = False,
    yes: bool = False,
    with_bucket: bool = False,
) -> None:
    """End what is ours; stop a stack's machines, or destroy them; ends with a receipt."""
    from bootstrap import journey

    journey.teardown(
        _machines(hosts, stack), purge=purge, discard=discard_results, destroy=destroy, yes=yes,
        with_bucket=with_bucket,
    )  # fmt: skip


@task()
def start(
    c: Context, hosts: str | None = None, stack: str | None = None, hours: str | None = None
) -> None:
    """Start a stack's machines, with the cloud's own deadline armed, and wait for ssh."""
    from bootstrap import power
    from bootstrap.machines import number

    length = None if hours is None else number(hours, "--hours", 0.1, 168)
    started = power.start(_machines(hosts, stack), say, hours=length)
    say("next: fab train", *(f"[{host.name}] {host}" for host in started.hosts))


@task()
def stop(c: Context, hosts: str | None = None, stack: str | None = None) -> None:
    """Stop a stack's machines, and wait until the cloud says so; their disks stay."""
    from bootstrap import power

    power.stop(_machines(hosts, stack), say)


@task()
def extend(
    c: Context, hosts: str | None = None, stack: str | None = None, hours: str | None = None
) -> None:
    """Move the moment at which the cloud stops a stack's machines by itself."""
    from bootstrap import power
    from bootstrap.errors import UsageError
    from bootstrap.machines import number

    if hours is None:
        raise UsageError("for how long?", hint="fab extend --hours 4   # from now")
    length = number(hours, "--hours", 0.1, 168)
    power.extend(_machines(hosts, stack), length, say)


@task()
def trust(
    c: Context, hosts: str | None = None, stack: str | None = None, yes: bool = False
) -> None:
    """Show the host keys of hosts that are not known yet, ask, and pin them."""
    from bootstrap import trust

    found = trust.unknown(_inventory(hosts, stack))
    if not found:
        say("every host's key is known already: nothing was pinned")
    say(*trust.pin(found, (lambda said: _agree(said, yes))))


def _agree(said: str, yes: bool) -> bool:
    from bootstrap.errors import UsageError

    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"{said}\nnobody is here to ask", hint="the same command with --yes")
    return input(f"{said}\nIs it the key of that machine? [y/N] ").strip().lower() == "y"


@task(name="ssh", first="host")
def ssh_(c: Context, host: str, hosts: str | None = None, stack: str | None = None) -> None:
    """Open a shell on a host, with our pins and keys."""
    from bootstrap import access

    inventory = _inventory(hosts, stack)
    os.execvp("ssh", ["ssh", "-F", str(access.write_own(inventory)), access.known(inventory, host)])


@task(name="exec")
def exec_(
    c: Context, cmd: str | None = None, hosts: str | None = None, stack: str | None = None
) -> None:
    """Run a shell command on every host; exit 1 if it fails on any."""
    from bootstrap import access
    from bootstrap.errors import UsageError

    if not cmd:
        raise UsageError("no command", hint="fab exec --cmd 'nvidia-smi'")
    access.execute(_inventory(hosts, stack), cmd)


@task()
def ssh_config(c: Context, hosts: str | None = None, stack: str | None = None) -> None:
    """Write a file for ssh's Include, so that ssh, scp, rsync and editors know the hosts."""
    from bootstrap import access

    path = access.write_config(_inventory(hosts, stack))
    say(path.read_text(), f"next: put this line first in ~/.ssh/config\nInclude {path}")


@task()
def demo(c: Context) -> None:
    """The whole path on this machine: two SSH hosts, bootstrap, train, results, teardown."""
    from bootstrap import journey

    journey.demo(Path.cwd() / "results")
