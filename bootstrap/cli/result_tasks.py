"""The tasks of `fab` for runs that have ended: evaluate, compare, report.

The fabfile adds them to those of `tasks.py`.
"""

from __future__ import annotations

from pathlib import Path

from invoke import Context

from bootstrap.cli.options import options_of, target_of, task
from bootstrap.console.output import json_output


@task(lists=("data", "metric", "min", "max", "env", "secret"), positional=("run",))
def evaluate(
    c: Context,
    run: str,
    hosts: str | None = None,
    stack: str | None = None,
    here: bool = False,
    data: list[str] | None = None,
    min: list[str] | None = None,
    max: list[str] | None = None,
    script: str | None = None,
    workdir: str | None = None,
    args: str | None = None,
    metric: list[str] | None = None,
    launcher: str | None = None,
    strategy: str | None = None,
    keras: str | None = None,
    env: list[str] | None = None,
    secret: list[str] | None = None,
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
    from bootstrap.evaluation.request import FOLDER, read_evaluation
    from bootstrap.lifecycle.stop_policy import read_stop_policy
    from bootstrap.runs.earlier_run import earlier_run
    from bootstrap.runs.request import TrainArgs
    from bootstrap.workflows import train as workflow

    stop_policy = read_stop_policy(keep, no_stop, max_hours)
    earlier = earlier_run(run)
    request = read_evaluation(
        earlier,
        TrainArgs(
            launcher=launcher, strategy=strategy, script=script, workdir=workdir, args=args,
            keras=keras, env=tuple(env or ()), secrets=tuple(secret or ()),
            data=tuple(data or ()), metrics=tuple(metric or ()), requirements=requirements,
            runtime=runtime, mins=tuple(min or ()), maxs=tuple(max or ()),
        ),
    )  # fmt: skip
    if here:
        evaluate_here.evaluate(earlier, request)
        return
    launcher = request.options.launcher
    options = options_of(False, requirements, peer_address, runtime, launcher, mixed=True)
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
