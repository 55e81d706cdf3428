"""The tasks of `fab` that evaluate and compare runs: evaluate, report, runs, sweep, scale.

The fabfile adds them to those of `tasks.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from invoke import Context

from bootstrap.cli.options import options_of, target_of, task
from bootstrap.console.output import json_output

if TYPE_CHECKING:
    from bootstrap.cli.targets import Target
    from bootstrap.runs.request import TrainArgs


@task(positional=("run",))
def evaluate(
    c: Context,
    run: str,
    hosts: str | None = None,
    stack: str | None = None,
    here: bool = False,
    data: Sequence[str] = (),
    min: Sequence[str] = (),
    max: Sequence[str] = (),
    model: str | None = None,
    script: str | None = None,
    workdir: str | None = None,
    args: str | None = None,
    metric: Sequence[str] = (),
    launcher: str | None = None,
    strategy: str | None = None,
    keras: str | None = None,
    env: Sequence[str] = (),
    secret: Sequence[str] = (),
    requirements: str | None = None,
    runtime: str | None = None,
    slots: str | None = None,
    peer_address: str | None = None,
    keep: str | None = None,
    no_stop: bool = False,
    max_hours: str | None = None,
) -> None:
    """Evaluate the model of a run on held-out data; exit 3 if it misses --min or --max."""
    from bootstrap.evaluation import here as evaluate_here
    from bootstrap.evaluation.recorded import is_recorded, judge_recorded
    from bootstrap.evaluation.request import FOLDER, read_evaluation
    from bootstrap.lifecycle.stop_policy import read_stop_policy
    from bootstrap.runs.earlier_run import earlier_run
    from bootstrap.runs.request import TrainArgs
    from bootstrap.workflows import train as workflow

    stop_policy = read_stop_policy(keep, no_stop, max_hours)
    earlier = earlier_run(run)
    given = TrainArgs(
        launcher=launcher, strategy=strategy, script=script, workdir=workdir, args=args,
        keras=keras, env=tuple(env), secrets=tuple(secret), data=tuple(data),
        metrics=tuple(metric), requirements=requirements, runtime=runtime,
        mins=tuple(min), maxs=tuple(max),
    )  # fmt: skip
    if is_recorded(earlier, given, model):
        judge_recorded(earlier, given)
        return
    request = read_evaluation(earlier, given, model)
    if here:
        evaluate_here.evaluate(earlier, request)
        return
    launcher = request.options.launcher
    options = options_of(
        requirements=requirements, peer_address=peer_address, runtime=runtime, launcher=launcher,
        mixed=True,
    )  # fmt: skip
    inventory = target_of(hosts, stack, slots, start=True, run=run).running()
    results = earlier.run.results / FOLDER
    workflow.train(
        inventory, workflow.TrainOptions(request, options, results, stop_policy=stop_policy)
    )


@task(positional=("runs",))
def report(c: Context, runs: str, to: str | None = None, by: str | None = None) -> None:
    """Write a page in HTML about a run, or one that compares several (ids with commas)."""
    from bootstrap.report import write

    names = [name.strip() for name in runs.split(",") if name.strip()]
    write.report(names, to, by, Path.cwd() / "results")


@task()
def runs(c: Context, sort: str = "time", json: bool = False) -> None:
    """List the runs that are known here, and those in the buckets of stacks."""
    from bootstrap.report import listing

    with json_output(json) as out:
        listing.show(sort, out)


@task()
def sweep(
    c: Context,
    hosts: str | None = None,
    stack: str | None = None,
    set: Sequence[str] = (),
    random: str | None = None,
    at_once: str | None = None,
    to_end: bool = False,
    preset: str | None = None,
    script: str | None = None,
    workdir: str | None = None,
    args: str | None = None,
    data: Sequence[str] = (),
    metric: Sequence[str] = (),
    env: Sequence[str] = (),
    secret: Sequence[str] = (),
    launcher: str | None = None,
    strategy: str | None = None,
    requirements: str | None = None,
    runtime: str | None = None,
    slots: str | None = None,
) -> None:
    """Train each combination of --set NAME=A,B, one by one or --at-once N; name the best one."""
    from bootstrap.runs.request import TrainArgs

    base = TrainArgs(
        launcher=launcher, strategy=strategy, preset=preset, script=script, workdir=workdir,
        args=args, data=tuple(data), metrics=tuple(metric), env=tuple(env),
        secrets=tuple(secret), requirements=requirements, runtime=runtime,
    )  # fmt: skip
    options = SweepOptions(set, random, at_once, to_end)
    run_sweep(target_of(hosts, stack, slots), base, options, Path.cwd() / "results")


@task()
def scale(
    c: Context,
    hosts: str | None = None,
    stack: str | None = None,
    counts: str | None = None,
    of: str | None = None,
    preset: str | None = None,
    set: Sequence[str] = (),
    script: str | None = None,
    workdir: str | None = None,
    args: str | None = None,
    data: Sequence[str] = (),
    metric: Sequence[str] = (),
    env: Sequence[str] = (),
    secret: Sequence[str] = (),
    launcher: str | None = None,
    strategy: str | None = None,
    requirements: str | None = None,
    runtime: str | None = None,
    slots: str | None = None,
) -> None:
    """Train on 1, 2, 4 ... hosts (--counts), or compare runs (--of): where more stops paying."""
    from bootstrap.report.facts import read_run
    from bootstrap.runs.request import TrainArgs
    from bootstrap.workflows.series import scale as workflow

    results = Path.cwd() / "results"
    if of is not None:
        workflow.report([read_run(name.strip()) for name in of.split(",")], results)
        return
    given = TrainArgs(
        launcher=launcher, strategy=strategy, preset=preset, settings=tuple(set), script=script,
        workdir=workdir, args=args, data=tuple(data), metrics=tuple(metric), env=tuple(env),
        secrets=tuple(secret), requirements=requirements, runtime=runtime,
    )  # fmt: skip
    run_scale(target_of(hosts, stack, slots, start=True), given, counts, results)


# What `sweep` and `scale` do, for the Python interface too.


@dataclass(frozen=True)
class SweepOptions:
    """`sets`: NAME=A,B of each setting; the other options as they were typed."""

    sets: Sequence[str]
    random: str | None = None
    at_once: str | None = None
    to_end: bool = False


@dataclass(frozen=True)
class SweepOutcome:
    """The page, the run of each trial by the trial's name, and the best run, if any is."""

    page: Path
    runs: Mapping[str, str]
    best: str | None


def run_sweep(
    target: Target, base: TrainArgs, options: SweepOptions, results: Path
) -> SweepOutcome:
    """Train the combinations that have no results yet, and compare all."""
    from bootstrap.console.output import print_lines
    from bootstrap.evaluation.grid import read_trials
    from bootstrap.inventory.hosts import whole_number
    from bootstrap.lifecycle import power
    from bootstrap.report.sweep_file import recorded
    from bootstrap.runs.request import read_request
    from bootstrap.workflows.series import sweep as workflow
    from bootstrap.workflows.series.trials import run_trials

    trials = read_trials(options.sets, whole_number(options.random, "--random", 1, 100))
    requests = [(trial, read_request(trial.args(base))) for trial in trials]
    to_be_ready = options_of(
        requirements=base.requirements, runtime=base.runtime,
        launcher=requests[0][1].options.launcher, mixed=True,
    )  # fmt: skip
    folder = workflow.folder_of(results, base, trials)
    number = whole_number(options.at_once, "--at-once", 1, 100) or 1
    chosen = workflow.Sweep(requests, to_be_ready, folder, not options.to_end, number)
    status = target.status()
    workflow.check(status.inventory, chosen)  # before machines of a stack are started
    if workflow.has_ended(chosen):
        print_lines("all trials have ended before")
        page = workflow.report(chosen)
    else:
        page = run_trials(power.ensure_running(status, print_lines, start_them=True), chosen)
    best = workflow.best(chosen)
    return SweepOutcome(page, recorded(folder), best.run_id if best else None)


def run_scale(target: Target, given: TrainArgs, counts: str | None, results: Path) -> Path:
    """Train on each number of hosts; returns the page."""
    from bootstrap.runs.request import read_request
    from bootstrap.workflows.series import scale as workflow

    numbers = workflow.read_counts(counts)
    request = read_request(given)
    options = options_of(
        requirements=given.requirements, runtime=given.runtime,
        launcher=request.options.launcher, mixed=True,
    )  # fmt: skip
    return workflow.scale(target.running(), workflow.Scale(request, options, numbers, results))
