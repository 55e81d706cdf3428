"""`fab report`: writes the page of one run, or of several, with its charts as SVG files."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from railhead.documents.lazy import dataclass

from ..console.charts.chart import Panel, sheet
from ..console.output import print_lines
from ..errors import Command, RailheadError, UsageError
from ..inventory import local_state
from ..inventory.files import atomic_write, folder_option
from ..runs.metrics.plots import panels
from ..runs.results import require_writable
from .command import command
from .compare import comparison_page, comparison_panels, metric_for
from .facts import RunFacts, read_run
from .html import PAGE
from .page import run_page, throughput_panels

MOST = 50  # runs on one page


@dataclass(frozen=True)
class Report:
    """A page that is not written yet: its HTML, and the charts to write next to it as SVG files."""

    html: str
    charts: Sequence[Panel]


def report(names: Sequence[str], to: str | None, by: str | None, here: Path) -> Path:
    """Write the report of these runs; returns the page.

    `to`: the folder. Default: the results of the run; for several, a new folder in `here`.

    Raises:
        UsageError: no run is named, a run is not known or has no results here, no run has the
            metric `by`, or the folder cannot be written.
    """
    runs = read_runs(names)
    is_single = len(runs) == 1
    default = (
        runs[0].folder if is_single else here / f"report-{runs[0].run_id}-and-{len(runs) - 1}-more"
    )
    folder = folder_option(to, "--to") if to else default
    require_writable(folder)
    try:
        if not is_single:
            write_pages(runs)
        return write(folder, composed(runs, by, folder))
    except OSError as error:
        raise UsageError(
            f"the report cannot be written to {folder}: {error.strerror}",
            hint=Command("report", ",".join(names), to="FOLDER"),
        ) from None


def read_runs(names: Sequence[str]) -> list[RunFacts]:
    """The facts of these runs, each once; UsageError as for `report`."""
    if not names:
        raise UsageError("name a run, or several separated by commas", hint=Command("runs"))
    runs = [read_run(name) for name in dict.fromkeys(names)]
    refuse_empty(runs)
    if len(runs) > MOST:
        raise UsageError(f"{len(runs)} runs: at most {MOST} on one page")
    return runs


def write_pages(runs: Sequence[RunFacts]) -> None:
    """Write the page of each run beside its results, for the links of a page about several. One
    that cannot be written is left out."""
    for run in runs:
        with contextlib.suppress(OSError):
            atomic_write(run.folder / PAGE, composed([run]).html, mode=0o644)


def composed(runs: Sequence[RunFacts], by: str | None = None, folder: Path = Path()) -> Report:
    """The report of one run, or of several that are compared by the metric `by`, in `folder`.
    Writes nothing."""
    metric = metric_for(runs, by)
    if len(runs) > 1:
        again = Command("report", ",".join(run.run_id for run in runs), by=metric)
        html = comparison_page(runs, metric, str(again), folder)
        return Report(html, comparison_panels(runs, metric))
    charts = [*panels(runs[0].records), *throughput_panels(runs[0])]
    return Report(run_page(runs[0], command_of(runs[0])), charts)


def refuse_empty(runs: Sequence[RunFacts]) -> None:
    """UsageError if a run has neither a result nor records here."""
    for run in runs:
        if not run.result and not run.records:
            raise UsageError(
                f"run {run.run_id} has no results here: {run.folder}",
                hint=Command("fetch", run=run.run_id),
            )


def write(folder: Path, contents: Report) -> Path:
    """Write a page, and each chart as an SVG file next to it."""
    path = folder / PAGE
    atomic_write(path, contents.html, mode=0o644)
    for panel in contents.charts[:12]:
        name = "report-" + "".join(c if c.isalnum() else "-" for c in panel.y_label)[:40] + ".svg"
        atomic_write(folder / name, sheet([panel]), mode=0o644)
    print_lines(f"report: {path}")
    return path


def command_of(run: RunFacts) -> str:
    """The command that repeats a run."""
    evaluates = run.document.evaluates if run.document else None
    return command(run.options, where_of(run.cluster), evaluates)


def where_of(cluster: str) -> str:
    """The option that names the hosts of a recorded cluster; "" if it is no longer recorded."""
    try:
        inventory = local_state.load_cluster(cluster)
    except RailheadError:
        return ""
    if inventory.stack:
        return f"--stack {inventory.stack}"
    return f"--hosts {','.join(str(host) for host in inventory.hosts)}"
