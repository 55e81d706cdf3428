"""The tasks of `fab` for machines: up, start, stop, teardown, their host keys, and shells on them.

The fabfile adds them to those of `tasks.py`.
"""

from __future__ import annotations

import os
import shlex

from invoke import Context

from bootstrap.cli.options import target_of, task
from bootstrap.console import log
from bootstrap.console.output import confirm, print_lines


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
    """End runs, remove keys, stop or destroy a stack's machines; print a verified receipt."""
    from bootstrap.workflows import attach
    from bootstrap.workflows import teardown as workflow

    options = workflow.TeardownOptions(
        purge=purge, discard_results=discard_results, destroy=destroy, yes=yes,
        with_bucket=with_bucket,
    )  # fmt: skip
    target = target_of(hosts, stack)
    machines = target.machines()
    inventory = target.status_of(machines).inventory if not machines or machines.inventory else None
    if inventory and not (hosts or stack):
        print_lines(*attach.also_ended(inventory))
    if machines:
        workflow.teardown_stack(machines, options)
    else:
        assert inventory
        workflow.teardown(inventory, options)


@task()
def up(c: Context, stack: str | None = None, yes: bool = False, refresh: bool = False) -> None:
    """Run `pulumi up`; say what a break leaves; without capacity, try the next of `zones`."""
    from bootstrap.cli.targets import selected_stack
    from bootstrap.lifecycle import up

    up.up(selected_stack(stack), print_lines, yes=yes, refresh=refresh)


@task()
def start(
    c: Context, hosts: str | None = None, stack: str | None = None, hours: str | None = None
) -> None:
    """Start a stack's machines, arm the cloud's deadline, and wait until ssh answers."""
    from bootstrap.lifecycle import power
    from bootstrap.lifecycle.stop_policy import number

    length = None if hours is None else number(hours, "--hours", 0.1, 168)
    target = target_of(hosts, stack)
    machines = target.machines()
    status = target.status_of(machines)
    if machines:
        machines.refuse_undocumented()
    started = power.start(status.inventory, print_lines, hours=length)
    print_lines(
        f"next: fab train{started.option}", *(f"[{host.name}] {host}" for host in started.hosts)
    )


@task()
def stop(
    c: Context,
    hosts: str | None = None,
    stack: str | None = None,
    yes: bool = False,
    discard_results: bool = False,
) -> None:
    """Stop a stack's machines and wait until the cloud reports it; disks stay, but of spot."""
    from bootstrap.lifecycle import stop
    from bootstrap.workflows import attach

    target = target_of(hosts, stack)
    status = target.status_of(target.machines())
    if not (hosts or stack):
        print_lines(*attach.also_ended(status.inventory))
    stop.stop(status.inventory, print_lines, yes=yes, discard=discard_results)


@task()
def extend(
    c: Context, hosts: str | None = None, stack: str | None = None, hours: str | None = None
) -> None:
    """Move both deadlines of a stack's machines: their own timers, and the cloud's."""
    from bootstrap.errors import UsageError
    from bootstrap.lifecycle import power
    from bootstrap.lifecycle.stop_policy import number

    if hours is None:
        raise UsageError("--hours is missing", hint="fab extend --hours 4   # from now")
    length = number(hours, "--hours", 0.1, 168)
    power.extend(target_of(hosts, stack).status(), length, print_lines)


@task()
def trust(
    c: Context, hosts: str | None = None, stack: str | None = None, yes: bool = False
) -> None:
    """Show unknown host keys, ask for confirmation, and pin them."""
    from bootstrap.ssh import trust

    found = trust.unknown_keys(target_of(hosts, stack).running())
    if not found:
        print_lines("every host's key is known already: nothing was pinned")
    hint = "the same command with --yes"

    def agreed(key: str) -> bool:
        return yes or confirm(f"{key}\nIs it the key of that machine?", hint=hint)

    print_lines(*trust.pin_keys(found, agreed))


@task(name="ssh", positional=("host",))
def ssh_(c: Context, host: str, hosts: str | None = None, stack: str | None = None) -> None:
    """Open a shell on a host, with the pinned host keys and the cluster's key."""
    from bootstrap.cli import shell

    inventory = target_of(hosts, stack).running()
    config, name = shell.write_own(inventory), shell.known(inventory, host)
    argv = ["ssh", "-F", str(config), name]
    log.event(f"here: {shlex.join(argv)}   # in place of fab")
    os.execvp("ssh", argv)


@task(name="exec")
def exec_(
    c: Context, cmd: str | None = None, hosts: str | None = None, stack: str | None = None
) -> None:
    """Run a shell command on every host; exit 1 if it fails on any."""
    from bootstrap.cli import shell
    from bootstrap.errors import UsageError

    if not cmd:
        raise UsageError("no command", hint="fab exec --cmd 'nvidia-smi'")
    shell.execute(target_of(hosts, stack).running(), cmd)


@task()
def ssh_config(c: Context, hosts: str | None = None, stack: str | None = None) -> None:
    """Write an OpenSSH config file for the hosts, to be included in ~/.ssh/config."""
    from bootstrap.cli import shell

    path = shell.write_config(target_of(hosts, stack).running())
    print_lines(path.read_text(), f"next: put this line first in ~/.ssh/config\nInclude {path}")
