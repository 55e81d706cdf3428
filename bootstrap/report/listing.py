"""`fab runs`: the runs that are recorded here, and those in the buckets of recorded stacks."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from railhead.documents.lazy import dataclass
from railhead.documents.outputs import ListedRun

from ..clouds.bucket import Bucket, bucket_of
from ..clouds.storage import NoBucket
from ..console.output import note_output, print_lines
from ..console.text import clean, columns_of, duration, fit, table_lines
from ..errors import Command, RailheadError, UsageError
from ..inventory import local_state
from ..untrusted.run_files import read_result
from ..untrusted.unpack import Hostile
from .facts import METRICS, RunFacts, better, read_run
from .page import figure

ORDERS = ("time", "duration", "cost")
RESULT = re.compile(r"runs/(\d{8}-\d{6}-[0-9a-f]{4})/result\.json")  # as upload.py names it
LIMIT = 1_000_000  # bytes of a result in a bucket
MOST = 200  # runs of a bucket, the newest ones
WIDTH, LEAST = 80, 6  # of the list, and of a shortened column
ALWAYS = ("run", "name", "program", "launcher", "hosts", "state")
SHORTENED = {"name", "program", "hosts"}
NOT_FETCHED = "not fetched"


@dataclass(frozen=True)
class RunRow:
    """A run in the list, and where its results are."""

    run: RunFacts
    place: str

    def document(self) -> ListedRun:
        """The row as a document."""
        run = self.run
        return ListedRun(
            run_id=run.run_id,
            name=run.name or None,
            cluster=run.cluster,
            kind=run.kind,
            program=run.description,
            launcher=run.document.launcher if run.document else None,
            hosts=run.hosts,
            state=run.state,
            created=run.document.created if run.document else None,
            seconds=run.seconds,
            samples_per_s=run.speed,
            cost=_usd(run),
            metrics=run.metrics,
            results=self.place,
        )


def show(sort: str) -> None:
    """Print the list, the best or newest run first."""
    rows = known_runs(sort)
    note_output([row.document() for row in rows])
    if rows:
        print_lines(*lines(rows, sort, max(WIDTH, shutil.get_terminal_size().columns)))
    else:
        print_lines("no run is recorded here")


def known_runs(sort: str) -> list[RunRow]:
    """The runs that are recorded here and those in the buckets of stacks, sorted by `ordered`."""
    return ordered([*_here(), *_in_buckets()], sort)


def _here() -> list[RunRow]:
    """The runs that are recorded on this computer."""
    paths = (local_state.home() / "clusters").glob("*/runs/*.json")
    runs = [read_run(path.stem) for path in paths if re.fullmatch(r"[\w-]+", path.stem)]
    return [RunRow(run, _place(run)) for run in runs]


def _place(run: RunFacts) -> str:
    if run.result:
        return str(run.folder)
    cluster = run.cluster or "its hosts"
    return f"{NOT_FETCHED} from {cluster}: {Command('fetch', run=run.run_id)}"


def _in_buckets() -> Iterator[RunRow]:
    """The runs in the buckets of recorded clusters that have no results here."""
    for name in local_state.clusters():
        try:
            inventory = local_state.load_cluster(name)
            if inventory.bucket:
                known = {path.stem for path in local_state.runs(name) if read_run(path.stem).result}
                yield from _in_bucket(bucket_of(inventory), name, known)
        except NoBucket:
            continue
        except RailheadError as error:
            print_lines(f"{name}: its bucket could not be listed: {error.message}")


def _in_bucket(bucket: Bucket, cluster: str, known: set[str]) -> Iterator[RunRow]:
    pages = bucket.store.objects("runs/")
    keys = [match[1] for page in pages for item in page if (match := RESULT.fullmatch(item.key))]
    for run_id in sorted({*keys} - known)[-MOST:]:
        data = bucket.read(f"runs/{run_id}/result.json", LIMIT)
        try:
            result = read_result((data or b"").decode(errors="replace"))
        except Hostile:
            continue
        run = RunFacts(run_id, Path(), cluster, result=result, evaluation=result.evaluated)
        yield RunRow(run, f"{bucket.store.url}/runs/{run_id}")


def ordered(rows: Sequence[RunRow], sort: str) -> list[RunRow]:
    """The rows in the order of `sort`, each run once; runs without a value come last.

    Raises:
        UsageError: no run has a metric of this name.
    """
    once: dict[str, RunRow] = {}
    for row in rows:  # a row from a bucket replaces one without results
        before = once.get(row.run.run_id)
        if before is None or not before.run.result:
            document = before.run.document if before else row.run.document
            once[row.run.run_id] = replace(row, run=replace(row.run, document=document))
    newest_first = sorted(once.values(), key=lambda row: row.run.run_id, reverse=True)
    if sort == "time":
        return newest_first
    values = {row.run.run_id: _value(row.run, sort) for row in newest_first}
    if newest_first and all(value is None for value in values.values()):
        names = sorted({name for row in newest_first for name in row.run.metrics})
        raise UsageError(f"--sort {sort!r}: choices: {', '.join([*ORDERS, *names])}")
    sign = 1 if sort in ORDERS or better(sort, 0.0, 1.0) else -1
    return sorted(newest_first, key=lambda row: _key(values[row.run.run_id], sign))


def _key(value: float | None, sign: int) -> tuple[bool, float]:
    return value is None, sign * (value or 0.0)


def _value(run: RunFacts, sort: str) -> float | None:
    if sort == "duration":
        return run.seconds
    return _usd(run) if sort == "cost" else run.metrics.get(sort)


def _usd(run: RunFacts) -> float | None:
    """What its machines cost, where that is one figure."""
    exact = run.cost.exact if run.cost else None
    return None if exact is None else float(round(exact, 4))


def lines(rows: Sequence[RunRow], sort: str = "time", width: int = WIDTH) -> list[str]:
    """The list as text, in columns that fit into `width`."""
    columns = _fitting(_columns(rows, sort), width)
    text = table_lines([*zip(*columns.values(), strict=True)])
    missing = [row.run.run_id for row in rows if row.place.startswith(NOT_FETCHED)]
    return text + [f"next: {Command('fetch', missing[0])}" for _ in missing[:1]]


def _columns(rows: Sequence[RunRow], sort: str) -> dict[str, list[str]]:
    """The cells of each column, with its head; without columns that say nothing."""
    runs = [row.run for row in rows]
    custom = [name for run in runs for name in run.metrics if name not in METRICS]
    present = {name for run in runs for name in run.metrics}
    metrics = [n for n in (sort, "accuracy", "loss", "mae", *custom) if n in present]
    cells = {
        "run": [run.run_id for run in runs],
        "name": [clean(run.name) for run in runs],
        "program": [run.program for run in runs],
        "launcher": [run.document.launcher if run.document else "" for run in runs],
        "hosts": [clean(",".join(run.hosts)) for run in runs],
        "state": [run.state for run in runs],
        "duration": ["" if run.seconds is None else duration(run.seconds) for run in runs],
        "cost": ["" if run.cost is None else str(run.cost) for run in runs],
        **{
            name: [figure(name, run.metrics[name]) if name in run.metrics else "" for run in runs]
            for name in [*dict.fromkeys(metrics)][:5]
        },
        "cluster": [run.cluster for run in runs],
        "results": [row.place for row in rows],
    }
    return {name: [name, *some] for name, some in cells.items() if any(some)}


def _fitting(columns: Mapping[str, list[str]], width: int) -> dict[str, list[str]]:
    """The columns that fit: the last ones are left out, then the long texts are shortened."""
    kept, names = dict(columns), list(columns)
    while _width(kept) > width and names[-1] not in ALWAYS:
        del kept[names.pop()]
    while _width(kept) > width:
        widest = max(SHORTENED & {*kept}, key=lambda name: max(map(columns_of, kept[name])))
        most = max(map(columns_of, kept[widest])) - 1
        if most < LEAST:
            break
        kept[widest] = [fit(cell, most) for cell in kept[widest]]
    return kept


def _width(columns: Mapping[str, list[str]]) -> int:
    return sum(max(map(columns_of, cells)) + 2 for cells in columns.values()) - 2
