"""A sweep: its trials, the folder of its results, its page, and which trials have ended."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from railhead.documents.lazy import dataclass
from railhead.documents.options.option import options_in, typed_texts
from railhead.documents.options.runs import ProgramOptions

from ...console.output import print_lines, print_result
from ...console.text import count
from ...data.inputs import check_shares
from ...errors import Command, UsageError
from ...inventory.hosts import Inventory
from ...plan.cluster import Options
from ...report import write
from ...report.command import typed
from ...report.comparable import comparison
from ...report.compare import best_of, best_value, comparison_page, comparison_panels, metric_for
from ...report.facts import RunFacts, read_run
from ...runs.earlier_run import program_change
from ...runs.request import RunRequest
from .grid import Trial, slices_of
from .sweep_file import record, recorded


@dataclass(frozen=True)
class Sweep:
    """Trials with their requests, and the folder of their results. `at_once`: the number of trials
    at the same time, each on a slice of the hosts; `typed`: the options of its command."""

    trials: Sequence[tuple[Trial, RunRequest]]
    options: Options
    folder: Path
    early_end: bool = True
    at_once: int = 1
    typed: Sequence[object] = ()


LATER = ("keras_patches", "module", "independent")  # options that 0.1.0 does not have


def sweep_folder(results: Path, args: ProgramOptions, trials: Sequence[Trial]) -> Path:
    """The folder of a sweep: the same for the same command, on any hosts."""
    values = [dict(trial.values) for trial in trials]
    content = json.dumps([as_typed(args), values], sort_keys=True)
    return results / f"sweep-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def as_typed(args: ProgramOptions) -> dict[str, object]:
    """The options as typed: the name of a sweep's folder depends on their form."""
    options: dict[str, object] = {}
    for one in options_in(ProgramOptions):
        value = getattr(args, one.name)
        if one.name in LATER and value == one.default:
            continue  # so that the folders of 0.1.0 are found
        if one.kind == "mapping":
            value = typed_texts(value)
        elif one.rule.bare is not None:
            value = {None: False, one.rule.bare: True}.get(value, str(value))
        elif one.kind == "int" and value is not None:
            value = str(value)
        options[one.rule.was or one.name] = value
    return {"folder": str(Path.cwd()), "options": options}


def check(inventory: Inventory, chosen: Sweep) -> None:
    """UsageError if the hosts cannot be divided, or a trial cannot run on a slice of them."""
    hosts = len(slices_of(inventory, chosen.at_once, len(chosen.trials))[0].hosts)
    for _, request in chosen.trials:
        request.options.resolved_strategy(hosts)
        check_shares(request.data, hosts)


def has_ended(chosen: Sweep) -> bool:
    """Whether all trials have ended: no host is needed, and no machine has to be started."""
    known = recorded(chosen.folder)
    runs = [known.get(trial.name, "") for trial, _ in chosen.trials]
    return all(run_id and not _why_again(run_id) and read_run(run_id).result for run_id in runs)


def changed_program(chosen: Sweep) -> list[str]:
    """One line if the program has changed since the run of a trial; none otherwise."""
    known = recorded(chosen.folder)
    for trial, request in chosen.trials:
        run_id = known.get(trial.name, "")
        document = read_run(run_id).document if run_id and not _why_again(run_id) else None
        if document and (change := program_change(document, request)):
            again = f"to train all trials again, rename {chosen.folder}"
            return [f"{change} of {trial.name}, whose results are kept; {again}"]
    return []


def report(chosen: Sweep) -> Path:
    """Write the page that compares the trials, and print the best one."""
    known = recorded(chosen.folder)
    runs = _runs_with_results(chosen)
    if not runs:
        raise UsageError("no trial of the sweep has results", hint=Command("runs"))
    metric = metric_for(runs)
    again = typed(["sweep"], write.where_of(runs[0].cluster), *chosen.typed)
    page = comparison_page(runs, metric, again, chosen.folder, "Sweep")
    names = {run_id: name for name, run_id in known.items()}
    if first := best(chosen):
        of = count(len(runs), "trial")
        print_result(f"best of {of}: {names[first.run_id]}, {best_value(first, metric)}")
        print_result(f"  run {first.run_id}")
    left_out = comparison(runs, metric).left_out
    for run in runs:
        if run.state == "succeeded" and run.run_id in left_out:
            print_lines(f"not compared: {names[run.run_id]}: {left_out[run.run_id]}")
    write.write_pages(runs)
    return write.write(chosen.folder, write.Report(page, comparison_panels(runs, metric)))


def _runs_with_results(chosen: Sweep) -> list[RunFacts]:
    known = recorded(chosen.folder)
    runs = [read_run(known[t.name]) for t, _ in chosen.trials if t.name in known]
    return [run for run in runs if run.result or run.records]


def best(chosen: Sweep) -> RunFacts | None:
    """The best run of a sweep; None if no trial has results that can be compared."""
    runs = _runs_with_results(chosen)
    return best_of(runs, metric_for(runs)) if runs else None


def forget_unusable(folder: Path) -> None:
    """Delete the records of runs whose trials have to be trained again, and name them."""
    for name, run_id in recorded(folder).items():
        if why := _why_again(run_id):
            print_lines(f"run {run_id} of {name} {why}: the trial is trained again")
            record(folder, name, None)


def _why_again(run_id: str) -> str:
    try:
        host = _lost_host(read_run(run_id))
    except UsageError:
        return "is not known here"
    return f"lost {host}" if host else ""


def _lost_host(run: RunFacts) -> str:
    """The host that was lost during a run; "" if the run did not fail, or if its program failed."""
    culprit = run.result.culprit if run.result else None
    return culprit.host or "" if culprit and culprit.rank is None else ""
