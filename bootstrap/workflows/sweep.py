"""`fab sweep`: trains one combination of values after the other, ends hopeless ones early, and
compares them. The same command goes on where it was interrupted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bootstrap.console.output import print_lines
from bootstrap.console.text import count
from bootstrap.errors import BelowThreshold, RunFailed, UsageError
from bootstrap.evaluation.grid import Course, Trial, is_hopeless
from bootstrap.inventory.files import atomic_write
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle import stop
from bootstrap.plan.cluster import Options
from bootstrap.report import write
from bootstrap.report.compare import best_of, comparison_page, comparison_panels, metric_for
from bootstrap.report.facts import RunFacts, object_in, read_run
from bootstrap.report.page import figure
from bootstrap.runs.follow import Watch
from bootstrap.runs.request import RunRequest, TrainArgs
from bootstrap.runs.start import find_run
from bootstrap.workflows import attach, train

FILE = "sweep.json"


class Hopeless(Exception):
    """The trial is worse than the others were at the same epoch."""


@dataclass(frozen=True)
class Sweep:
    """Trials with their requests, and the folder of their results."""

    trials: Sequence[tuple[Trial, RunRequest]]
    options: Options
    folder: Path
    early_end: bool = True


def folder_of(results: Path, args: TrainArgs, trials: Sequence[Trial]) -> Path:
    """The folder of a sweep: the same command has the same one."""
    content = json.dumps([args.record(), [dict(trial.values) for trial in trials]], sort_keys=True)
    return results / f"sweep-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def sweep(inventory: Inventory, chosen: Sweep) -> Path:
    """Run all trials and write the report; returns its page."""
    with stop.after_all_runs(inventory, print_lines):
        for number, (trial, request) in enumerate(chosen.trials, 1):
            print_lines(f"trial {number} of {len(chosen.trials)}: {trial.name}")
            _run(inventory, chosen, trial, request)
    return report(chosen)


def _run(inventory: Inventory, chosen: Sweep, trial: Trial, request: RunRequest) -> None:
    """Start a trial, or go on with it where it was interrupted; follow it to its end."""
    run_id = _recorded(chosen.folder).get(trial.name)
    if run_id and read_run(run_id).result:
        print_lines(f"run {run_id} has ended before")
        return
    if run_id is None:
        options = train.TrainOptions(
            request, chosen.options, chosen.folder, True, stop.policy_between(inventory)
        )
        run_id = train.train(inventory, options).run_id
        _record(chosen.folder, trial, run_id)
    try:
        _follow(inventory, run_id, _watch(chosen, trial))
    except Hopeless:
        print_lines(f"run {run_id} is worse than the median of the trials before: it is ended")
        attach.cancel(inventory, run_id)
        with attach.connected(inventory, find_run(inventory, run_id)) as connection:
            attach.fetch_ended(connection)
    except BelowThreshold as error:
        print_lines(error.message)
    except RunFailed as error:
        if not read_run(run_id).result:  # the connection was lost: the run itself goes on
            raise
        print_lines(str(error))


def _follow(inventory: Inventory, run_id: str, watch: Watch | None) -> None:
    with attach.connected(inventory, find_run(inventory, run_id)) as connection:
        connection.watch = watch
        attach.follow(connection)
        attach.finish(connection)


def _watch(chosen: Sweep, trial: Trial) -> Watch | None:
    """What looks at each record of a trial, and raises Hopeless."""
    if not chosen.early_end:
        return None
    names = [other.name for other, _ in chosen.trials if other is not trial]
    recorded = _recorded(chosen.folder)
    runs = [read_run(recorded[name]) for name in names if name in recorded]
    finished = [_course(run) for run in runs if run.state == "succeeded"]
    course = Course()

    def look(record: Mapping[str, Any]) -> None:
        course.add(record)
        if is_hopeless(course, finished):
            raise Hopeless

    return look


def _course(run: RunFacts) -> Course:
    course = Course()
    for record in run.epochs:
        course.add(record)
    return course


def report(chosen: Sweep) -> Path:
    """Write the page that compares the trials, and print the best one."""
    recorded = _recorded(chosen.folder)
    runs = [read_run(recorded[t.name]) for t, _ in chosen.trials if t.name in recorded]
    runs = [run for run in runs if run.result or run.records]
    if not runs:
        raise UsageError("no trial of the sweep has results", hint="fab runs")
    metric = metric_for(runs)
    page = comparison_page(runs, metric, "Sweep")
    if best := best_of(runs, metric):
        name = next(name for name, run_id in recorded.items() if run_id == best.run_id)
        value = figure(metric, best.metrics[metric])
        print_lines(f"best of {count(len(runs), 'trial')}: {name}, {metric} {value}")
        print_lines(f"  run {best.run_id}")
    return write.write(chosen.folder, page, comparison_panels(runs))


def _recorded(folder: Path) -> dict[str, str]:
    """{name of a trial: id of its run}."""
    found = object_in(folder / FILE).get("runs")
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def _record(folder: Path, trial: Trial, run_id: str) -> None:
    runs = {**_recorded(folder), trial.name: run_id}
    atomic_write(folder / FILE, json.dumps({"schema": 1, "runs": runs}, indent=1) + "\n")
