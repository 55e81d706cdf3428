"""The tasks of `fab` that evaluate and compare runs: evaluate, report, runs, sweep, scale."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from railhead.documents.options.hosts import JsonOption, ReadyOptions, TargetOptions
from railhead.documents.options.option import only
from railhead.documents.options.runs import (
    CostsOptions,
    EndingOptions,
    EvaluateOptions,
    ListOptions,
    ProgramOptions,
    ReportOptions,
    ScaleOptions,
    StartOptions,
    SweepOptions,
)

from ..console.output import json_output, print_lines
from .groups import OfJob, WithSlots
from .task import RESULTS, TRAIN, task

# Of the program of each run in a series; a sweep has its settings from its values.
SERIES = (
    *("launcher", "strategy", "preset", "script", "module", "workdir", "args", "data"),
    *("metrics", "env", "keras", "keras_patches"),
    *("secrets", "requirements", "runtime"),
)
Retries = Annotated[StartOptions, only("retries")]  # of each run in a series
EVALUATES = (
    *("strategy", "script", "module", "workdir", "args", "keras", "keras_patches", "env"),
    *("secrets", "minimum", "maximum"),
    *("requirements", "runtime"),
)


@task(RESULTS, "run", quiet=True)
def evaluate(
    evaluated: EvaluateOptions,
    target: Annotated[
        TargetOptions,
        only("stack", "slots", hosts="[which hosts](#hosts); default: those of the run"),
    ],
    program: Annotated[
        ProgramOptions,
        only(
            *EVALUATES,
            launcher="as with [`train`](#train); default: that of the run",
            data="`test=URI` or `validation=URI`. Default: the run's `test`, otherwise its"
            " `validation`, otherwise the part that was held out",
            metrics="with `--script`: as with [`train`](#train); the last value counts",
        ),
    ],
    ready: Annotated[ReadyOptions, only("peer_address")],
    ending: EndingOptions,
    out: JsonOption,
) -> None:
    """Evaluate the model of a run on held-out data; exit 3 if it misses --min or --max."""
    from ..inventory import local_state
    from ..workflows import evaluate as workflow
    from .targets import Target

    evaluated = replace(evaluated, run=evaluated.run or local_state.newest_run())
    hosts = Target(replace(target, run=evaluated.run, start=True))
    with json_output(out.json):
        workflow.evaluate(evaluated, program, ready, ending, hosts.running)


@task(RESULTS, "runs")
def report(compared: ReportOptions) -> None:
    """Write an HTML page about a run, or one that compares several (ids separated by commas)."""
    import webbrowser

    from ..inventory import local_state
    from ..report import write

    typed = local_state.newest_run() if compared.runs is None else compared.runs
    names = [name.strip() for name in typed.split(",") if name.strip()]
    page = write.report(names, compared.to, compared.by, Path.cwd() / "results")
    if compared.open and not webbrowser.open(page.resolve().as_uri()):
        print_lines("no browser was found on this computer")


@task(RESULTS)
def runs(
    order: ListOptions,
    out: Annotated[JsonOption, only(json="a list of objects, with all metrics")],
) -> None:
    """List the runs that are recorded on this computer, and those in the buckets of stacks."""
    from ..report import listing

    with json_output(out.json):
        listing.show(order.sort)


@task(RESULTS)
def costs(
    options: CostsOptions,
    out: Annotated[JsonOption, only(json="the table as JSON")],
) -> None:
    """Show what stacks, runs or people have cost, and how long machines ran without a run."""
    from ..workflows.machines import costs as workflow

    with json_output(out.json):
        workflow.costs(options)


@task(TRAIN, "script", "job", quiet=True)
def sweep(
    target: WithSlots,
    trials: SweepOptions,
    program: Annotated[ProgramOptions, only(*SERIES)],
    start: Retries,
    job: OfJob,
) -> None:
    """Train each combination of --set NAME=A,B, one by one or --at-once N; name the best one."""
    from ..project import job_file
    from ..workflows.series import trials as workflow
    from .targets import Target

    if chosen := job_file.chosen(job):
        print_lines(*job_file.describe(chosen, target, program, start))
        job_file.ask(chosen)
    workflow.run_sweep(Target(target).status, program, trials, start, Path.cwd() / "results")


@task(TRAIN, quiet=True)
def scale(
    target: Annotated[
        TargetOptions,
        only("stack", "slots", hosts="[which hosts](#hosts); the first ones are used"),
    ],
    compared: ScaleOptions,
    program: Annotated[
        ProgramOptions,
        only(
            "settings",
            *(name for name in SERIES if name != "metrics"),
            metrics="as with [`train`](#train); a metric `samples_per_s` is the throughput of a"
            " script",
        ),
    ],
    start: Retries,
) -> None:
    """Train on 1, 2, 4 ... hosts (--counts) or compare runs (--of), to see when more pay off."""
    from ..report.facts import read_run
    from ..workflows.series import scale as workflow
    from .targets import Target

    results = Path.cwd() / "results"
    if compared.of:
        workflow.report([read_run(run_id) for run_id in compared.of], results)
        return
    hosts = Target(replace(target, start=True))
    workflow.run_scale(hosts.running, program, compared.counts, start, results)
