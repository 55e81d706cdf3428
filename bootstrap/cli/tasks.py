"""The tasks of `fab` for runs and their data: each checks its options and calls one workflow.

Modules are imported inside the tasks, to keep `fab --list` fast.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from railhead.documents.options.hosts import (
    JsonOption,
    ReadyOptions,
    TargetOptions,
    WatchOptions,
    WheelOptions,
)
from railhead.documents.options.jobs import JobOptions
from railhead.documents.options.option import only
from railhead.documents.options.runs import (
    BucketOptions,
    EndingOptions,
    FetchOptions,
    IndexOptions,
    LogOptions,
    ProgramOptions,
    PruneOptions,
    PushOptions,
    ShardOptions,
    StartOptions,
)

from ..console.output import json_output, note_output, noted_output, print_lines
from .groups import Hosts, OfJob, OfRun, Packages, Prepared, WithSlots
from .running import RUNNING
from .task import HOSTS, RESULTS, TRAIN, task

if TYPE_CHECKING:
    from ..inventory.hosts import Inventory
    from ..workflows.train import TrainOptions


@task(TRAIN, "script", "job", dry=True, quiet=True)
def train(
    target: Annotated[TargetOptions, only("hosts", "stack", "slots", "start")],
    program: ProgramOptions,
    ready: ReadyOptions,
    ending: EndingOptions,
    start: StartOptions,
    job: JobOptions,
    out: JsonOption,
) -> None:
    """Train on the hosts: bootstrap them, start the run, show progress, fetch the results."""
    from ..workflows import plan
    from ..workflows import train as workflow
    from .targets import Target

    with json_output(out.json) as file:
        if job.are_typed and not job.save:
            _agree_to_job(job, target, program, ready, ending, start)
        options = workflow.train_options(program, ready, ending, start, Path.cwd() / "results")
        if job.save:
            from ..project import job_file

            groups = (target, program, ready, ending, replace(start, resume=None))
            job_file.save(job, *groups)
            return
        inventory = Target(replace(target, run=start.resume)).running()
        if RUNNING.dry:
            plan.plan(inventory, options.options, file)
        elif start.deploy:
            _train_and_deploy(inventory, options, start.deploy)
        else:
            workflow.train(inventory, options)


def _agree_to_job(job: JobOptions, *groups: Any) -> None:
    """Print a job and ask for it, before its code runs, and before anything leaves this
    computer."""
    from ..project import job_file

    if chosen := job_file.chosen(job):
        print_lines(*job_file.describe(chosen, *groups))
        job_file.ask(chosen)


def _train_and_deploy(inventory: Inventory, options: TrainOptions, name: str) -> None:
    """Train, then deploy the model; a training alone does without the imports of serving."""
    from ..lifecycle.power import cluster_status
    from ..workflows import serving
    from ..workflows import train as workflow

    serving.check_free(name, inventory)
    run = workflow.train(inventory, options)
    trained = noted_output()
    serving.deploy_trained(name, run.run_id, lambda: cluster_status(inventory))
    note_output(trained)


@task(HOSTS, "job", dry=True)
def plan(
    target: Hosts, program: Prepared, ready: ReadyOptions, job: OfJob, out: JsonOption
) -> None:
    """Print what bootstrap would do on each host, and why; changes nothing."""
    from ..project import job_file
    from ..runs.strategies import launcher_named
    from ..workflows import plan as workflow
    from ..workflows.plan import ready_options
    from .targets import Target

    options = ready_options(ready, program, launcher=launcher_named(program.launcher))
    with json_output(out.json) as file:
        if chosen := job_file.chosen(job):
            print_lines(*job_file.describe(chosen, target, program, ready))
        workflow.plan(Target(target).running(), options, file)


@task(HOSTS, dry=True, quiet=True)
def bootstrap(target: Hosts, program: Prepared, ready: ReadyOptions, out: JsonOption) -> None:
    """Make the hosts ready: runtime, Horovod, keys. Changes nothing on hosts that are ready."""
    from ..runs.strategies import launcher_named
    from ..workflows import bootstrap as workflow
    from ..workflows import plan as steps
    from ..workflows.plan import ready_options
    from .targets import Target

    options = ready_options(ready, program, launcher=launcher_named(program.launcher))
    with json_output(out.json) as file:
        act = steps.plan if RUNNING.dry else workflow.bootstrap
        act(Target(target).running(), options, file)


@task(HOSTS)
def wheel(
    program: Annotated[
        ProgramOptions,
        only(
            runtime="the runtime whose TensorFlow and Pythons the wheel is for; default: `tf2.18`,"
            " unless this computer has no Python for it"
        ),
    ],
    options: WheelOptions,
) -> None:
    """Build and test a Horovod wheel on this computer, for its system; no hosts are needed."""
    from . import wheel

    wheel.make(options, program.runtime)


@task(HOSTS)
def health(
    target: WithSlots,
    program: Packages,
    ready: Annotated[ReadyOptions, only("peer_address")],
    out: JsonOption,
) -> None:
    """Check GPUs, TensorFlow, links, ports, clocks and disks before a run; exit 1 on findings."""
    from ..health import run
    from ..workflows.plan import ready_options
    from .targets import Target

    options = ready_options(replace(ready, allow_mixed=True), program)
    with json_output(out.json):
        run.health(Target(target).running(), options)


@task(HOSTS, "run")
def status(target: OfRun, watch: WatchOptions, out: JsonOption) -> None:
    """Show the state of the machines, the hosts and the last run, as they are now."""
    from ..console.refresh import CLOUD_SECONDS, SECONDS, refreshed
    from ..errors import UsageError
    from . import status
    from .targets import Target

    def show() -> float:
        hosts = Target(target)
        machines = hosts.machines()
        status.show(hosts.status_of(machines), target.run, machines)
        return CLOUD_SECONDS if machines else SECONDS

    if watch.watch and out.json:
        raise UsageError("--watch goes without --json")
    with json_output(out.json):
        if watch.watch:
            refreshed(show)
        else:
            show()


@task(RESULTS, "run")
def logs(target: OfRun, log: LogOptions) -> None:
    """Print the log of a rank, of mpirun, of the supervisor, or of an endpoint."""
    from ..errors import UsageError
    from ..workflows import logs, serving
    from .targets import Target, hosts_of_endpoint

    if log.endpoint is not None:
        if target.run or log.follow or log.rank != LogOptions.rank:
            raise UsageError("--endpoint cannot be used with --run, --rank and --follow")
        serving.show_log(log.endpoint, hosts_of_endpoint(log.endpoint, target))
        return
    status = Target(target).status()
    logs.show(status, target.run, log.rank, follow=log.follow, start=target.start)


@task(TRAIN, "run", quiet=True)
def attach(target: OfRun) -> None:
    """Follow a run, then fetch its results. Ctrl-C detaches; the run continues."""
    from ..workflows import attach as workflow
    from .targets import Target

    workflow.attach(Target(target).running(), target.run)


@task(RESULTS, "run", quiet=True)
def fetch(target: OfRun, fetched: FetchOptions) -> None:
    """Fetch what a run has written so far."""
    from ..workflows import attach
    from .targets import Target

    status = Target(target).status()
    attach.fetch(status, target.run, fetched.to, with_checkpoint=fetched.checkpoints)


@task(RESULTS, "run")
def tensorboard(target: OfRun) -> None:
    """Show a run, also in progress, in TensorBoard on this computer; Ctrl-C ends TensorBoard."""
    from ..workflows import tensorboard as workflow
    from .targets import Target

    workflow.show(Target(target).status(), target.run)


@task(TRAIN, "run")
def cancel(target: OfRun) -> None:
    """Cancel a run on every host, and verify that none of its processes is left."""
    from ..workflows import attach
    from .targets import Target

    inventory = Target(target).running()
    named = target != TargetOptions()
    attach.cancel(inventory, target.run if named else attach.last_run(inventory))


@task(HOSTS)
def prune(target: Hosts, runs: PruneOptions) -> None:
    """Remove the folders of old runs from the hosts; results on this computer are kept."""
    from ..workflows import prune as workflow
    from .targets import Target

    workflow.prune(Target(target).running(), runs.keep)


OfStack = Annotated[TargetOptions, only("stack")]


@task(TRAIN)
def data_push(upload: PushOptions, target: OfStack) -> None:
    """Upload a folder to a bucket, for --data; files that are already there are not sent again."""
    from ..workflows import data
    from .targets import Target

    cluster = Target(target).status().inventory if upload.uri == "bucket" else None
    data.push(Path(upload.folder), upload.uri, cluster)


@task(TRAIN, "uri")
def data_list(objects: BucketOptions, target: OfStack, out: JsonOption) -> None:
    """List the data in the stack's bucket, or the objects at a URI."""
    from ..workflows import data
    from .targets import Target

    with json_output(out.json):
        if objects.uri and objects.uri != "bucket":
            data.list_objects(objects.uri)
        else:
            data.list_stack(Target(target).status().inventory)


@task(TRAIN)
def data_shard(
    shards: ShardOptions,
    program: Annotated[ProgramOptions, only("preset", "settings")],
) -> None:
    """Write data as shards (a few large files), with TensorFlow on this computer."""
    from ..workflows import data

    data.shard(shards, program)


@task(TRAIN)
def data_index(
    index: IndexOptions,
    program: Annotated[ProgramOptions, only("preset", "settings")],
) -> None:
    """Index TFRecord files of other programs, to read them as shards without a copy."""
    from ..workflows import data

    data.index(index, program)


@task(TRAIN, name="init")
def init_() -> None:
    """Write the files of a project into this folder: Pulumi.yaml, its program, and a fabfile."""
    from ..project.init import init

    init(Path.cwd())


@task(TRAIN, quiet=True)
def demo(
    program: Annotated[
        ProgramOptions,
        only(
            strategy="also `parameter-server`, or `horovod`, which is compiled first (a minute or"
            " more). Default: `multiworker`, which compiles nothing"
        ),
    ],
) -> None:
    """Try everything on this computer: two SSH hosts, bootstrap, train, results, teardown."""
    from ..workflows import demo as workflow

    workflow.demo(Path.cwd() / "results", program.strategy)
