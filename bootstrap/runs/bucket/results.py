"""Finds and fetches results from the bucket, for a run whose chief is not running."""

from __future__ import annotations

from pathlib import Path

from railhead.documents.runs.manifest import Entry, Manifest
from railhead.documents.runs.result import Result

from ...clouds import bucket
from ...clouds.bucket import Bucket
from ...console.output import Reporter
from ...console.text import count, size
from ...errors import Command, Hint, RailheadError, UsageError
from ...inventory.files import refuse_too_much
from ...inventory.hosts import Inventory
from ...untrusted import unpack
from ...untrusted.manifest import is_same, refuse_changed, skipped_line
from .. import takeover
from ..results import BY_HAND, LEFT, accept, left_files, result_of, undrawn, where
from ..run import Run

LARGE = 100_000_000  # bytes: a file of this size is reported on a line of its own


def run_line(inventory: Inventory, run: Run | None) -> str:
    """One line about a run of a cluster whose chief is not running."""
    if run is None:
        return "no run yet"
    inventory, result = run.part_of(inventory), result_of(run.results)
    if not result or not takeover.is_fetched(run):
        return f"run {run.run_id}: results {_place(inventory, run.run_id)}"
    fetched = where(run, inventory.chief.name)
    remaining = (
        f"; these are {_place(inventory, run.run_id, BY_HAND)}" if left_files(run.results) else ""
    )
    return f"run {run.run_id}: {result.state}; results {fetched}{remaining}"


def _place(inventory: Inventory, run_id: str, from_chief: Hint | None = None) -> str:
    """A text that says where the unfetched results are. `from_chief`: the command that fetches them
    from the chief, instead of `fab fetch`."""
    fetch = Command("fetch", run=run_id)
    start = f"{Command('start', **inventory.target)}, then {from_chief or fetch}"
    only = f"only on {inventory.chief.name}, which does not run: {start}"
    if not inventory.bucket:
        return only
    try:
        uploaded = bucket.bucket_of(inventory).manifest(run_id) is not None
    except RailheadError as error:
        return f"in {inventory.bucket} or {only} ({error.message})"
    return f"in {inventory.bucket}/runs/{run_id}: {fetch}" if uploaded else only


def fetch(inventory: Inventory, run: Run, report: Reporter = lambda _: None) -> Result | None:
    """Fetch a run's results from the bucket; each file is verified by its sha256 in the manifest.

    Args:
        report: receives a line with the number of files and bytes, and one per large file.

    Raises:
        UsageError: the results are not in the bucket.
        RailheadError: a file differs from the manifest, or was deleted from the bucket.
    """
    inventory = run.part_of(inventory)
    source = bucket.bucket_of(inventory)
    manifest = source.manifest(run.run_id)
    if manifest is None:
        raise UsageError(
            f"results of {run.run_id} are not in {inventory.bucket}: they are only on "
            f"{inventory.chief.name}, which does not run",
            hint=Hint(Command("start"), "   # then: ", Command("fetch")),
        )
    _fetch_files(source, run, manifest, report)
    takeover.record_no_standby(run.run_id)  # the host that published the results has the last term
    return result_of(run.results)


def _fetch_files(source: Bucket, run: Run, manifest: Manifest, report: Reporter) -> None:
    """Download the files to a temporary folder, compare them, and move them to their places."""
    total = sum(entry.bytes for entry in manifest.files)
    report(f"from {source.store.url}: {count(len(manifest.files), 'file')}, {size(total)}")
    with unpack.stage(run.results) as stage:
        refuse_too_much(total, stage, "the results")
        for entry in manifest.files:
            _fetch_file(source, run, entry, unpack.local_path(stage, entry.path), report)
        refuse_changed(
            [e.path for e in manifest.files if not is_same(e, unpack.local_path(stage, e.path))]
        )
        changed = accept(stage, run.results, [entry.path for entry in manifest.files])
        not_drawn = undrawn(stage, run)
    (run.results / LEFT).unlink(missing_ok=True)
    for line in [*skipped_line(manifest.skipped), *changed, *not_drawn]:
        report(line)


def _fetch_file(source: Bucket, run: Run, entry: Entry, path: Path, report: Reporter) -> None:
    """Download one file of the manifest, limited to the size in its entry."""
    if entry.bytes >= LARGE:
        report(f"  {entry.home}, {size(entry.bytes)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        source.get(f"runs/{run.run_id}/{entry.home}", path, entry.bytes)
    except KeyError as missing:
        raise RailheadError(
            f"{missing.args[0]} was deleted from {source.store.url}",
            hint=Hint(Command("start"), "   # then: ", Command("fetch")),
        ) from None
