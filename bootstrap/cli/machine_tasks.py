"""The tasks of `fab` for machines: up, start, stop, teardown, host keys, and shells on them."""

from __future__ import annotations

import os
import shlex
from typing import Annotated

from railhead.documents.options.hosts import (
    AdoptOptions,
    AllStacksOption,
    CommandOptions,
    DeadlineOptions,
    DoctorOptions,
    ExtendOptions,
    HostName,
    JsonOption,
    KeyOptions,
    LeaksOptions,
    OwnerOptions,
    PriceOptions,
    TargetOptions,
    TeardownOptions,
    TrustOptions,
    UpOptions,
)
from railhead.documents.options.option import only

from ..console import log
from ..console.output import confirm, json_output, print_lines
from ..errors import Command
from .groups import Hosts
from .task import CLOUD, HOSTS, task


@task(CLOUD, quiet=True)
def teardown(target: Hosts, options: TeardownOptions, out: JsonOption) -> None:
    """Cancel runs, remove keys, stop or destroy a stack's machines; print a verified receipt."""
    from ..lifecycle.consent import before_question
    from ..workflows import attach
    from ..workflows import teardown as workflow
    from .targets import Target

    with json_output(out.json):
        hosts = Target(target)
        machines = hosts.machines()
        known = not machines or machines.inventory
        inventory = hosts.status_of(machines).inventory if known else None
        if inventory and target == TargetOptions():
            for line in attach.also_ended(inventory):
                before_question(options.yes)(line)
        if machines:
            print_lines(*machines.unknown())
            workflow.teardown_stack(machines, options)
        else:
            assert inventory
            workflow.teardown(inventory, options)


@task(CLOUD)
def up(
    target: Annotated[
        TargetOptions, only(stack="[which stack](#hosts); default: the selected one")
    ],
    options: UpOptions,
    removal: Annotated[
        TeardownOptions,
        only(
            discard_results="also replace or remove machines whose disks have the only copy of"
            " results"
        ),
    ],
) -> None:
    """Run `pulumi up`; report what a failure leaves; without capacity, try the next zone."""
    from ..doctor import doctor
    from ..lifecycle.creation import up
    from ..workflows.machines import replacement
    from .targets import selected_stack

    stack = selected_stack(target.stack)
    doctor.refuse_blocked(stack, print_lines)
    if options.replace is not None:
        replacement.replace_host(
            stack, options.replace, yes=options.yes, discard=removal.discard_results
        )
        return
    up.up(
        stack,
        print_lines,
        yes=options.yes,
        refresh=options.refresh,
        discard=removal.discard_results,
    )


@task(CLOUD)
def doctor(
    target: Annotated[
        TargetOptions, only(stack="[which stack](#hosts); default: the selected one, if any")
    ],
    options: DoctorOptions,
    out: JsonOption,
) -> None:
    """Check this computer, credentials, rights, quotas and a stack's config; change nothing."""
    from ..doctor import command as doctor
    from ..inventory import pulumi_stack

    stack = target.stack or pulumi_stack.current()
    if options.policy:
        print_lines(doctor.policy(stack, options.cloud))
        return
    with json_output(out.json) as file:
        doctor.doctor(stack, file)


@task(CLOUD)
def price(
    options: PriceOptions,
    out: Annotated[JsonOption, only(json="the table as JSON")],
) -> None:
    """Compare the prices of machines with --gpus N: per hour, per GPU hour and per epoch."""
    from ..workflows.machines import price as workflow

    with json_output(out.json):
        workflow.price(options)


@task(CLOUD)
def adopt(
    options: AdoptOptions,
    owner: Annotated[
        OwnerOptions,
        only(
            owner="whose machines may be adopted; default: the owner of the stack's config, or you"
        ),
    ],
) -> None:
    """Record the machines of a stack whose state Pulumi has lost, so that commands find them."""
    from ..clouds.machines import place_named
    from ..lifecycle import adopt as lifecycle

    place = place_named(options.region, options.project)
    lifecycle.adopt(options.id, place=place, owner=owner.owner, report=print_lines)


@task(CLOUD)
def start(
    target: Hosts,
    deadline: Annotated[
        DeadlineOptions,
        only(
            hours="time from now until the cloud stops the machines by itself;"
            " default: the `deadline_hours` of the stack"
        ),
    ],
) -> None:
    """Start a stack's machines, arm the cloud's deadline, and wait until ssh answers."""
    from ..lifecycle import power
    from .targets import Target

    hosts = Target(target)
    machines = hosts.machines()
    status = hosts.status_of(machines)
    if machines:
        machines.refuse_undocumented()
    started = power.start(status.inventory, print_lines, hours=deadline.hours)
    train = Command("train", **started.target)
    print_lines(f"next: {train}", *(f"[{host.name}] {host}" for host in started.hosts))


@task(CLOUD)
def stop(
    target: Hosts,
    options: Annotated[
        TeardownOptions,
        only(
            yes="do not ask for the name of the stack (spot machines on AWS)",
            discard_results="spot machines on AWS: also when results are not fetched",
        ),
    ],
    stacks: AllStacksOption,
    owner: Annotated[OwnerOptions, only(owner="with `--all`: the setting `owner` of your stacks")],
) -> None:
    """Stop a stack's machines and wait until the cloud confirms; only spot machines lose disks."""
    from ..lifecycle import stop
    from ..workflows import attach
    from ..workflows.machines import stop_all
    from .targets import Target

    if stacks.every:
        stop_all.stop_all(target, options, owner.owner)
        return

    hosts = Target(target)
    machines = hosts.machines()
    status = hosts.status_of(machines)
    if machines:
        print_lines(*machines.unknown())
    if target == TargetOptions():
        print_lines(*attach.also_ended(status.inventory))
    stop.stop(status.inventory, print_lines, yes=options.yes, discard=options.discard_results)


@task(CLOUD)
def leaks(
    options: LeaksOptions,
    removal: Annotated[
        TeardownOptions,
        only(
            yes="with `--end`: remove, without a question",
            with_bucket="with `--end`: also remove buckets that have objects",
        ),
    ],
    owner: OwnerOptions,
    out: Annotated[JsonOption, only(json="the report as JSON")],
) -> None:
    """List what has Railhead's tags in the clouds; exit 1 if some of it belongs to no stack."""
    from ..leaks import command as leaks

    with json_output(out.json) as file:
        leaks.leaks(options, removal, owner.owner, file)


@task(CLOUD)
def extend(
    target: Hosts,
    options: ExtendOptions,
    consent: Annotated[TeardownOptions, only(yes="do not ask before an earlier deadline")],
) -> None:
    """Move both deadlines of a stack's machines: their own timers, and the cloud's."""
    from ..lifecycle import power
    from ..lifecycle.deadlines import new_deadline
    from .targets import Target

    new = new_deadline(options)
    status = Target(target).status()
    power.extend(status, new(status.inventory), print_lines, yes=consent.yes)


@task(HOSTS)
def trust(
    target: Hosts,
    options: Annotated[TeardownOptions, only(yes="do not ask; needed where there is no terminal")],
    file: TrustOptions,
) -> None:
    """Pin unknown host keys, or trust a job file, after a question."""
    from ..project import job_file
    from ..ssh import trust
    from .targets import Target

    if file.job is not None:
        print_lines(job_file.trust(file.job, yes=options.yes))
        return
    unknown = trust.unknown_keys(Target(target).running())
    if not unknown:
        print_lines("every host's key is known already: nothing was pinned")
    hint = "the same command with --yes"

    def agreed(key: str) -> bool:
        return options.yes or confirm(f"{key}\nIs it the key of that machine?", hint=hint)

    print_lines(*trust.pin_keys(unknown, agreed))


@task(HOSTS, name="ssh")
def ssh_(chosen: HostName, target: Hosts) -> None:
    """Open a shell on a host, with the pinned host keys and the cluster's key."""
    from . import shell
    from .targets import Target

    inventory = Target(target).running()
    config, name = shell.write_own(inventory), shell.known(inventory, chosen.host)
    argv = ["ssh", "-F", str(config), name]
    log.event(f"here: {shlex.join(argv)}   # in place of fab")
    os.execvp("ssh", argv)


@task(HOSTS, "cmd", name="exec")
def exec_(command: CommandOptions, target: Hosts) -> None:
    """Run a shell command on every host; exit 1 if it fails on any."""
    from ..errors import UsageError
    from . import shell
    from .targets import Target

    if not command.cmd:
        raise UsageError("no command", hint=Command("exec", cmd="nvidia-smi"))
    shell.execute(Target(target).running(), command.cmd)


@task(HOSTS)
def ssh_key(key: KeyOptions, target: Hosts) -> None:
    """Let a colleague log in: add their public SSH key to every host, or remove it."""
    from . import shell
    from .targets import Target

    shell.change_key(Target(target).running(), key)


@task(HOSTS)
def ssh_config(target: Hosts) -> None:
    """Write an OpenSSH config file for the hosts, to be included in ~/.ssh/config."""
    from . import shell
    from .targets import Target

    path = shell.write_config(Target(target).running())
    next_step = "next: put this line first in ~/.ssh/config"
    print_lines(path.read_text(), f"{next_step}\n{shell.include_line(path)}")
