"""`fab scale`: the same training on 1, 2, 4 ... hosts, and a page about the gain of more hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from railhead.documents.options.hosts import ReadyOptions
from railhead.documents.options.runs import ProgramOptions, StartOptions

from ...console.output import print_lines, print_result
from ...console.text import count
from ...errors import Command, RailheadError, RunFailed, UsageError
from ...inventory.hosts import Inventory
from ...lifecycle import power, stop
from ...report import write
from ...report.command import command
from ...report.facts import RunFacts, read_run
from ...report.scaling import panels_of, points_of, scaling_page, sentence, step_at_end
from ...runs.request import read_request
from .. import attach, resume, train
from ..plan import ready_options


def run_scale(
    hosts: Callable[[], Inventory],
    program: ProgramOptions,
    counts: Sequence[int],
    begin: StartOptions,
    results: Path,
) -> Path:
    """Train on each number of these hosts; returns the page. `begin`: the retries of each run."""
    if len(counts) < 2:
        raise UsageError(
            "--counts: numbers of hosts, at least two", hint=Command("scale", counts="1,2,4")
        )
    request, lines = resume.with_retries(read_request(program), None, begin)
    print_lines(*lines)
    launcher = request.options.launcher
    ready = ready_options(ReadyOptions(allow_mixed=True), program, launcher=launcher)
    options = train.TrainOptions(request, ready, results, detach=True)
    return scale(hosts(), sorted({*counts}), options)


def scale(inventory: Inventory, counts: Sequence[int], options: train.TrainOptions) -> Path:
    """Train on each number of hosts, the smallest first; returns the page."""
    if counts[-1] > len(inventory.hosts):
        raise UsageError(f"--counts {counts[-1]}: there are {count(len(inventory.hosts), 'host')}")
    runs = []
    options = replace(options, stop_policy=stop.policy_between(inventory))
    with stop.after_all_runs(inventory, print_lines):
        for number in counts:
            print_lines(f"on {count(number, 'host')}:")
            whole = power.of_now(inventory, print_lines)
            part = whole.only(whole.names[:number])
            runs.append(train.train(part, replace(options, whole=whole)).run_id)
            _wait(part, runs[-1])
    return report([read_run(run_id) for run_id in runs], options.results)


def _wait(inventory: Inventory, run_id: str) -> None:
    """Follow a run to its end.

    Raises:
        RunFailed: the connection was lost, or Ctrl-C: the run continues. RailheadError: it failed.
    """
    try:
        attach.attach(inventory, run_id)
    except RunFailed as error:
        if read_run(run_id).result:
            raise RailheadError(error.message, hint=error.next) from None
        raise


def report(runs: Sequence[RunFacts], results: Path) -> Path:
    """Write the page about these runs, which may come from several commands; print its sentence."""
    write.refuse_empty(runs)
    points = points_of(runs)
    print_result(*filter(None, [sentence(points), step_at_end(points).text]))
    folder = results / f"scale-{points[0].run.run_id}"
    last = points[-1].run
    counts = ",".join(str(point.hosts) for point in points)
    again = command(last.options, write.where_of(last.cluster), counts=counts)
    write.write_pages([point.run for point in points])
    page = scaling_page(points, folder, again)
    return write.write(folder, write.Report(page, panels_of(points)))
