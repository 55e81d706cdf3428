"""The tasks of `fab` for runs and their data: each checks its options and calls one workflow.

Modules are imported inside the tasks, to keep `fab --list` fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from invoke import Context

from bootstrap.cli.options import options_of, target_of, task
from bootstrap.console.output import json_output


@task(dry=True)
def train(
    c: Context,
    hosts: str | None = None,
    stack: str | None = None,
    launcher: str | None = None,
    strategy: str | None = None,
    ps: str | None = None,
    preset: str | None = None,
    set: Sequence[str] = (),
    training: str | None = None,
    script: str | None = None,
    workdir: str | None = None,
    args: str | None = None,
    data: Sequence[str] = (),
    sagemaker: bool = False,
    keras: str | None = None,
    env: Sequence[str] = (),
    env_file: str | None = None,
    secret: Sequence[str] = (),
    outputs: Sequence[str] = (),
    metric: Sequence[str] = (),
    min: Sequence[str] = (),
    max: Sequence[str] = (),
    resume: str | None = None,
    requirements: str | None = None,
    runtime: str | None = None,
    slots: str | None = None,
    peer_address: str | None = None,
    system: bool = False,
    allow_mixed: bool = False,
    proxy: str | None = None,
    ca: str | None = None,
    detach: bool = False,
    keep: str | None = None,
    no_stop: bool = False,
    max_hours: str | None = None,
    start: bool = False,
) -> None:
    """Train on the hosts: bootstrap them, start the run, show progress, fetch the results."""
    from bootstrap.lifecycle.stop_policy import read_stop_policy
    from bootstrap.runs.earlier_run import earlier_run
    from bootstrap.runs.request import TrainArgs
    from bootstrap.workflows import plan as steps
    from bootstrap.workflows import train as workflow
    from bootstrap.workflows.resume import request_for

    stop_policy = read_stop_policy(keep, no_stop, max_hours)
    given = TrainArgs(
        launcher=launcher, strategy=strategy, ps=ps, preset=preset, settings=tuple(set),
        training=training, script=script, workdir=workdir, args=args, keras=keras, env=tuple(env),
        env_file=env_file, secrets=tuple(secret), outputs=tuple(outputs), data=tuple(data),
        sagemaker=sagemaker, metrics=tuple(metric), requirements=requirements, runtime=runtime,
        mins=tuple(min), maxs=tuple(max),
    )  # fmt: skip
    earlier = earlier_run(resume) if resume else None
    request, used = request_for(given, earlier)
    options = options_of(
        system=system, requirements=used.requirements, peer_address=peer_address,
        runtime=used.runtime, launcher=request.options.launcher, mixed=allow_mixed,
        proxy=proxy, ca=ca,
    )  # fmt: skip
    if c.config.run.dry:
        steps.plan(target_of(hosts, stack, slots).running(), options)
        return
    results = Path.cwd() / "results"
    workflow.train(
        target_of(hosts, stack, slots, start).running(),
        workflow.TrainOptions(
            request, options, results, detach=detach, stop_policy=stop_policy, earlier=earlier
        ),
    )


@task(dry=True)
def plan(
    c: Context,
    hosts: str | None = None,
    stack: str | None = None,
    requirements: str | None = None,
    runtime: str | None = None,
    peer_address: str | None = None,
    system: bool = False,
    allow_mixed: bool = False,
    proxy: str | None = None,
    ca: str | None = None,
    json: bool = False,
) -> None:
    """Print each step that bootstrap would do on each host, and why; changes nothing."""
    from bootstrap.workflows import plan as workflow

    options = options_of(
        system=system, requirements=requirements, peer_address=peer_address, runtime=runtime,
        mixed=allow_mixed, proxy=proxy, ca=ca,
    )  # fmt: skip
    with json_output(json) as out:
        workflow.plan(target_of(hosts, stack).running(), options, out)


@task(dry=True)
def bootstrap(
    c: Context,
    hosts: str | None = None,
    stack: str | None = None,
    requirements: str | None = None,
    runtime: str | None = None,
    peer_address: str | None = None,
    system: bool = False,
    allow_mixed: bool = False,
    proxy: str | None = None,
    ca: str | None = None,
    json: bool = False,
) -> None:
    """Make the hosts ready: runtime, Horovod, keys. Changes nothing where they are ready."""
    from bootstrap.workflows import bootstrap as workflow
    from bootstrap.workflows import plan as steps

    options = options_of(
        system=system, requirements=requirements, peer_address=peer_address, runtime=runtime,
        mixed=allow_mixed, proxy=proxy, ca=ca,
    )  # fmt: skip
    with json_output(json) as out:
        act = steps.plan if c.config.run.dry else workflow.bootstrap
        act(target_of(hosts, stack).running(), options, out)


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
    """Check GPUs, TensorFlow, links, ports, clocks and disks before a run; exit 1 on findings."""
    from bootstrap.health import run

    options = options_of(
        requirements=requirements, peer_address=peer_address, runtime=runtime, mixed=True
    )
    run.health(target_of(hosts, stack, slots).running(), options)


@task()
def status(
    c: Context, hosts: str | None = None, stack: str | None = None, run: str | None = None
) -> None:
    """Show the state of the machines, the hosts and the last run, as they are now."""
    from bootstrap.cli import status

    target = target_of(hosts, stack, run=run)
    machines = target.machines()
    status.show(target.status_of(machines), run, machines)


@task()
def logs(
    c: Context,
    hosts: str | None = None,
    stack: str | None = None,
    run: str | None = None,
    rank: str = "0",
    follow: bool = False,
    endpoint: str | None = None,
) -> None:
    """Print the log of a rank, of mpirun or of the supervisor, from the chief; or an endpoint's."""
    from bootstrap.errors import UsageError

    if endpoint is not None:
        from bootstrap.cli.targets import hosts_of_endpoint
        from bootstrap.workflows import serving

        if run or follow or rank != "0":
            raise UsageError("--endpoint goes without --run, --rank and --follow")
        serving.show_log(endpoint, hosts_of_endpoint(endpoint, hosts, stack))
        return

    from bootstrap.workflows import logs

    show = logs.follow if follow else logs.show
    show(target_of(hosts, stack, run=run).running(), run, rank)


@task()
def attach(
    c: Context, hosts: str | None = None, stack: str | None = None, run: str | None = None
) -> None:
    """Follow a run, then fetch its results. Ctrl-C detaches; the run continues."""
    from bootstrap.workflows import attach as workflow

    workflow.attach(target_of(hosts, stack, run=run).running(), run)


@task()
def fetch(
    c: Context,
    hosts: str | None = None,
    stack: str | None = None,
    run: str | None = None,
    checkpoints: bool = False,
    to: str | None = None,
) -> None:
    """Fetch what a run has written so far."""
    from bootstrap.workflows import attach

    attach.fetch(target_of(hosts, stack, run=run).status(), run, to, with_checkpoint=checkpoints)


@task()
def tensorboard(
    c: Context, hosts: str | None = None, stack: str | None = None, run: str | None = None
) -> None:
    """Show a run in TensorBoard on this machine, also while it goes on; Ctrl-C ends it."""
    from bootstrap.workflows import tensorboard as workflow

    workflow.show(target_of(hosts, stack, run=run).status(), run)


@task()
def cancel(
    c: Context, hosts: str | None = None, stack: str | None = None, run: str | None = None
) -> None:
    """Cancel a run on every host, and verify that none of its processes is left."""
    from bootstrap.workflows import attach

    inventory = target_of(hosts, stack, run=run).running()
    named = (hosts, stack, run) != (None, None, None)
    attach.cancel(inventory, run if named else attach.last_run(inventory))


@task()
def prune(c: Context, hosts: str | None = None, stack: str | None = None, keep: str = "10") -> None:
    """Remove the folders of old runs from the hosts; fetched results here stay."""
    from bootstrap.inventory.hosts import whole_number
    from bootstrap.workflows import prune as workflow

    newest = whole_number(keep, "--keep", 0, 10_000)
    workflow.prune(target_of(hosts, stack).running(), 10 if newest is None else newest)


@task(positional=("folder", "uri"))
def data_push(c: Context, folder: str, uri: str, stack: str | None = None) -> None:
    """Upload a folder to a bucket, for --data; what is there already is not sent again."""
    from bootstrap.workflows import data

    cluster = target_of(None, stack).status().inventory if uri == "bucket" else None
    data.push(Path(folder), uri, cluster)


@task()
def data_list(c: Context, uri: str | None = None, stack: str | None = None) -> None:
    """List the data in the stack's bucket, or the objects at a URI."""
    from bootstrap.workflows import data

    if uri and uri != "bucket":
        data.list_objects(uri)
    else:
        data.list_stack(target_of(None, stack).status().inventory)


@task(positional=("source", "destination"))
def data_shard(
    c: Context,
    source: str,
    destination: str,
    preset: str | None = None,
    set: Sequence[str] = (),
    split: str = "train",
    shards: str = "16",
) -> None:
    """Write data as shards, few large files, with TensorFlow on this machine."""
    from bootstrap.inventory.hosts import whole_number
    from bootstrap.workflows import data

    files = whole_number(shards, "--shards", 1, 100_000)
    data.shard(data.Sharding(source, destination, preset, tuple(set), split, files or 16))


@task()
def demo(c: Context) -> None:
    """Try everything on this machine: two SSH hosts, bootstrap, train, results, teardown."""
    from bootstrap.workflows import demo as workflow

    workflow.demo(Path.cwd() / "results")
