"""What a person types: each task checks its words, names a journey and prints.

Modules are imported where they are used, so that `fab --list` stays quick.
"""

from __future__ import annotations

import os
from pathlib import Path

from invoke import Context

from bootstrap.cli.options import inventory_of, machines_of, options_of, run_of, task
from bootstrap.console.output import json_output, print_lines

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
    from bootstrap.lifecycle.stop_policy import read_stop_policy
    from bootstrap.runs.request import TrainArgs, read_request
    from bootstrap.workflows import journey

    ending = read_stop_policy(keep, no_stop, max_hours)
    words = TrainArgs(
        launcher, strategy, preset, tuple(set or ()), script, workdir, args, keras,
        tuple(env or ()), env_file, tuple(secret or ()), tuple(outputs or ()),
    )  # fmt: skip
    asked = read_request(words)
    options = options_of(system, requirements, peer_address, runtime, launcher, mixed=allow_mixed)
    trip = journey.TrainOptions(asked, options, Path.cwd() / "results", detach, ending)
    journey.train(inventory_of(hosts, stack, slots, start), trip)


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
    from bootstrap.workflows import journey

    options = options_of(system, requirements, peer_address, runtime, mixed=allow_mixed)
    with json_output(json) as out:
        journey.plan(inventory_of(hosts, stack), options, out)


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
    from bootstrap.workflows import journey

    options = options_of(system, requirements, peer_address, runtime, mixed=allow_mixed)
    with json_output(json) as out:
        journey.bootstrap(inventory_of(hosts, stack), options, out)


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
    from bootstrap.workflows import journey

    options = options_of(False, requirements, peer_address, runtime, mixed=True)
    journey.health(inventory_of(hosts, stack, slots), options)


@task()
def status(
    c: Context, hosts: str | None = None, stack: str | None = None, run: str | None = None
) -> None:
    """Where the hosts and the last run stand, asked of the hosts now."""
    from bootstrap.cli import status
    from bootstrap.workflows import journey

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
    from bootstrap.workflows import watch

    inventory = inventory_of(hosts, stack)
    watch.logs(inventory, run_of(inventory, run), rank)


@task()
def attach(
    c: Context, hosts: str | None = None, stack: str | None = None, run: str | None = None
) -> None:
    """Watch a run, then fetch its results. Ctrl-C detaches; the run goes on."""
    from bootstrap.workflows import watch

    inventory = inventory_of(hosts, stack)
    watch.attach(inventory, run_of(inventory, run))


@task()
def fetch(
    c: Context, hosts: str | None = None, stack: str | None = None, run: str | None = None
) -> None:
    """Bring a run's results here, as far as there are any."""
    from bootstrap.workflows import journey, watch

    seen = journey.look(hosts, stack=stack)
    watch.fetch(seen, run_of(seen.inventory, run))


@task()
def cancel(
    c: Context, hosts: str | None = None, stack: str | None = None, run: str | None = None
) -> None:
    """End a run on every host, and verify that nothing of it is left."""
    from bootstrap.workflows import watch

    inventory = inventory_of(hosts, stack)
    watch.end(inventory, run_of(inventory, run))


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
    from bootstrap.workflows import journey

    journey.teardown(
        machines_of(hosts, stack), purge=purge, discard=discard_results, destroy=destroy, yes=yes,
        with_bucket=with_bucket,
    )  # fmt: skip


@task()
def start(
    c: Context, hosts: str | None = None, stack: str | None = None, hours: str | None = None
) -> None:
    """Start a stack's machines, with the cloud's own deadline armed, and wait for ssh."""
    from bootstrap.lifecycle import power
    from bootstrap.lifecycle.stop_policy import number

    length = None if hours is None else number(hours, "--hours", 0.1, 168)
    started = power.start(machines_of(hosts, stack), print_lines, hours=length)
    print_lines("next: fab train", *(f"[{host.name}] {host}" for host in started.hosts))


@task()
def stop(c: Context, hosts: str | None = None, stack: str | None = None) -> None:
    """Stop a stack's machines, and wait until the cloud says so; their disks stay."""
    from bootstrap.lifecycle import power

    power.stop(machines_of(hosts, stack), print_lines)


@task()
def extend(
    c: Context, hosts: str | None = None, stack: str | None = None, hours: str | None = None
) -> None:
    """Move the moment at which the cloud stops a stack's machines by itself."""
    from bootstrap.errors import UsageError
    from bootstrap.lifecycle import power
    from bootstrap.lifecycle.stop_policy import number

    if hours is None:
        raise UsageError("for how long?", hint="fab extend --hours 4   # from now")
    length = number(hours, "--hours", 0.1, 168)
    power.extend(machines_of(hosts, stack), length, print_lines)


@task()
def trust(
    c: Context, hosts: str | None = None, stack: str | None = None, yes: bool = False
) -> None:
    """Show the host keys of hosts that are not known yet, ask, and pin them."""
    from bootstrap.ssh import trust

    found = trust.unknown_keys(inventory_of(hosts, stack))
    if not found:
        print_lines("every host's key is known already: nothing was pinned")
    print_lines(*trust.pin_keys(found, trust.by_user(yes)))


@task(name="ssh", first="host")
def ssh_(c: Context, host: str, hosts: str | None = None, stack: str | None = None) -> None:
    """Open a shell on a host, with our pins and keys."""
    from bootstrap.cli import shell

    inventory = inventory_of(hosts, stack)
    os.execvp("ssh", ["ssh", "-F", str(shell.write_own(inventory)), shell.known(inventory, host)])


@task(name="exec")
def exec_(
    c: Context, cmd: str | None = None, hosts: str | None = None, stack: str | None = None
) -> None:
    """Run a shell command on every host; exit 1 if it fails on any."""
    from bootstrap.cli import shell
    from bootstrap.errors import UsageError

    if not cmd:
        raise UsageError("no command", hint="fab exec --cmd 'nvidia-smi'")
    shell.execute(inventory_of(hosts, stack), cmd)


@task()
def ssh_config(c: Context, hosts: str | None = None, stack: str | None = None) -> None:
    """Write a file for ssh's Include, so that ssh, scp, rsync and editors know the hosts."""
    from bootstrap.cli import shell

    path = shell.write_config(inventory_of(hosts, stack))
    print_lines(path.read_text(), f"next: put this line first in ~/.ssh/config\nInclude {path}")


@task()
def demo(c: Context) -> None:
    """The whole path on this machine: two SSH hosts, bootstrap, train, results, teardown."""
    from bootstrap.workflows import journey

    journey.demo(Path.cwd() / "results")
