"""`fab sweep` and `fab scale` for a target and options as text, also for the Python interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bootstrap.cli.options import options_of
from bootstrap.cli.targets import Target
from bootstrap.console.output import print_lines
from bootstrap.evaluation.grid import read_trials
from bootstrap.inventory.hosts import whole_number
from bootstrap.lifecycle import power
from bootstrap.report.sweep_file import recorded
from bootstrap.runs.request import TrainArgs, read_request
from bootstrap.workflows.series import scale, sweep
from bootstrap.workflows.series.trials import run_trials


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
    trials = read_trials(options.sets, whole_number(options.random, "--random", 1, 100))
    requests = [(trial, read_request(trial.args(base))) for trial in trials]
    to_be_ready = options_of(
        requirements=base.requirements, runtime=base.runtime,
        launcher=requests[0][1].options.launcher, mixed=True,
    )  # fmt: skip
    folder = sweep.folder_of(results, base, trials)
    number = whole_number(options.at_once, "--at-once", 1, 100) or 1
    chosen = sweep.Sweep(requests, to_be_ready, folder, not options.to_end, number)
    status = target.status()
    sweep.check(status.inventory, chosen)  # before machines of a stack are started
    if sweep.has_ended(chosen):
        print_lines("all trials have ended before")
        page = sweep.report(chosen)
    else:
        page = run_trials(power.ensure_running(status, print_lines, start_them=True), chosen)
    best = sweep.best(chosen)
    return SweepOutcome(page, recorded(folder), best and best.run_id)


def run_scale(target: Target, given: TrainArgs, counts: str | None, results: Path) -> Path:
    """Train on each number of hosts; returns the page."""
    numbers = scale.read_counts(counts)
    request = read_request(given)
    options = options_of(
        requirements=given.requirements, runtime=given.runtime,
        launcher=request.options.launcher, mixed=True,
    )  # fmt: skip
    return scale.scale(target.running(), scale.Scale(request, options, numbers, results))
