"""`railhead.Run`: a run that was started from this computer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from railhead.documents.codec import encode
from railhead.documents.options.hosts import ReadyOptions, TargetOptions
from railhead.documents.options.option import text_value
from railhead.documents.options.runs import EndingOptions, EvaluateOptions, ProgramOptions
from railhead.documents.options.serving import DeployOptions
from railhead.documents.rule import shortened
from railhead.documents.runs.records import Record

from ..cli import shell, status
from ..cli.targets import Target
from ..errors import UsageError
from ..inventory.hosts import Inventory
from ..lifecycle.power import ClusterStatus
from ..report import listing, write
from ..report.facts import RunFacts, object_in, read_run
from ..runs.follow import Watch
from ..untrusted.records import Written, raw_records
from ..workflows import attach, logs, serving
from ..workflows import evaluate as evaluation
from ..workflows.records import live
from .endpoint import Endpoint
from .methods import RunMethods
from .printed import document_of, printed_by
from .shown import Page, run_html, run_line
from .spelling import speaks_python, translated

KINDS = ("progress", "epoch", "evaluation", "metric", "checkpoint", "message")


@speaks_python
@dataclass(frozen=True)
class Run(RunMethods):
    """A run that was started from this computer, by its id: `railhead.Run("2026...")`. In a
    notebook it shows its state, its figures and its curves."""

    run_id: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "run_id", _run_id(self.run_id))

    def _repr_html_(self) -> str:
        return run_html(self.run_id)

    def __repr__(self) -> str:
        return run_line(self.run_id)

    def __str__(self) -> str:
        return self.run_id

    @property
    def results(self) -> Path:
        """The folder of the fetched results."""
        return self._facts().folder

    @property
    def state(self) -> str:
        """`succeeded`, `failed` or `cancelled`; `ended early` for a trial that its sweep has
        cancelled; `not fetched` before its results are here."""
        return self._facts().state

    def wait(self, on_epoch: Callable[[Written], None] | None = None) -> Run:
        """Follow the run to its end and fetch its results: `fab attach`.

        Args:
            on_epoch: called with the record of each epoch, such as {"epoch": 1, "loss": 0.5}. An
                exception ends the following; the run continues.

        Raises:
            RunFailed: it failed, was cancelled, or the connection was lost. BelowThreshold: its
                evaluation missed a threshold.
        """
        attach.attach(self._hosts(), self.run_id, on_epoch and _of_epochs(on_epoch))
        return self

    def cancel(self) -> None:
        """End the run on every host: `fab cancel`."""
        attach.cancel(self._hosts(), self.run_id)

    def stop(self) -> None:
        """The same as `cancel`; the machines of a stack stop by themselves."""
        self.cancel()

    def status(self) -> Written:
        """The machines, the hosts and this run, as they are now: `fab status --json`."""
        where = self._status(TargetOptions())
        return document_of(lambda: status.show(where, self.run_id))

    def logs(self, rank: int | str = 0) -> str:
        """The log of a rank, of "mpirun" or of the "supervisor": `fab logs`."""
        where = self._status(TargetOptions())
        show = partial(logs.show, where, self.run_id, str(rank), follow=False, start=False)
        return printed_by(show)

    def fetch(self, to: str | Path | None = None, *, checkpoints: bool = False) -> Path:
        """Fetch what the run has written so far: `fab fetch`. Returns the folder.

        Args:
            to: another folder for the results. checkpoints: also the newest checkpoint.
        """
        folder = None if to is None else text_value(to, UsageError)
        where = self._status(TargetOptions())
        attach.fetch(where, self.run_id, folder, with_checkpoint=checkpoints)
        return self.results

    def exec(self, cmd: str) -> dict[str, str]:
        """Run a shell command on the hosts of the run: `Cluster.exec`."""
        return shell.outputs(self._hosts(), cmd)

    def records(self) -> Iterator[Written]:
        """Each record as soon as it is written, until the run ends; of a run that has been fetched
        those of `metrics()`. Ending the loop does not end the run."""
        if self._facts().result:
            return iter(self.metrics())
        return live(self._hosts(), self.run_id)

    def metrics(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The records of the run in the order in which they were written: a dict for each epoch,
        progress and value of a metric; pandas.DataFrame(run.metrics(kind="epoch")) makes a table.

        Raises:
            UsageError: there are no records of this kind.
        """
        records = list(raw_records(self.results / "metrics.jsonl"))
        if kind is None:
            return records
        kinds = {*KINDS, *(r["kind"] for r in records if isinstance(r.get("kind"), str))}
        if not isinstance(kind, str) or kind not in kinds:
            raise UsageError(f"kind: {shortened(kind)} is not one of {', '.join(sorted(kinds))}")
        return [record for record in records if record.get("kind") == kind]

    def evaluation(self) -> dict[str, Any]:
        """evaluation.json; {} if the run has none."""
        return object_in(self.results / "evaluation.json")

    def _evaluate(self, options: EvaluateOptions, program: ProgramOptions) -> dict[str, Any]:
        return evaluation.evaluate(options, program, ReadyOptions(), EndingOptions(), self._hosts)

    def _deploy(self, options: DeployOptions, target: TargetOptions) -> Endpoint:
        serving.deploy(options, self.run_id, lambda: self._status(target))
        return Endpoint(options.name)

    def report(self, *others: Run | str, to: str | Path | None = None) -> Page:
        """Write the page about this run, or one that compares it with others: `fab report`. Returns
        its path, which a notebook shows as the page."""
        names = [self.run_id, *map(_run_id, others)]
        folder = None if to is None else text_value(to, UsageError)
        return Page(write.report(names, folder, None, self.results.parent))

    def _facts(self) -> RunFacts:
        return read_run(self.run_id)

    def _hosts(self) -> Inventory:
        return Target(TargetOptions(run=self.run_id, start=True)).running()

    def _status(self, target: TargetOptions) -> ClusterStatus:
        return Target(replace(target, run=self.run_id)).status()


def _of_epochs(call: Callable[[Written], None]) -> Watch:
    """A watch that passes on the epochs, as they were written."""

    def watch(record: Record) -> None:
        if record.kind == "epoch":
            numbers = {"epoch": record.epoch, "epochs": record.epochs, "time": record.time}
            call({"kind": record.kind, **numbers, **record.figures})

    return watch


def _run_id(run: object) -> str:
    """The id of a run that was named by it, or by a Run.

    Raises:
        UsageError: it is of another type.
    """
    if isinstance(run, Run):
        return run.run_id
    if isinstance(run, str):
        return run
    raise UsageError(
        f"{shortened(run)} is not a run: write its id, such as railhead.Run('2026...')"
    )


@translated
def runs(sort: str = "time") -> list[dict[str, Any]]:
    """The runs that are known here, and those in the buckets of stacks: `fab runs --json`.

    Args:
        sort: time, duration, cost, or a metric such as accuracy: the best first.

    Raises:
        UsageError: no run has the metric.
    """
    if not isinstance(sort, str):
        raise UsageError(f"sort: {shortened(sort)} is not the name of an order or of a metric")
    return [encode(row.document()) for row in listing.known_runs(sort)]
