"""Where a run's results are when its chief does not run: here, in the bucket, or only there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from bootstrap.clouds import bucket
from bootstrap.clouds.bucket import Bucket
from bootstrap.console.output import Reporter
from bootstrap.console.text import count, size
from bootstrap.errors import RailheadError, UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory
from bootstrap.runs.results import LEFT, accept, result_of
from bootstrap.runs.start import Run
from bootstrap.untrusted import unpack
from bootstrap.untrusted.manifest import Entry, Manifest, refuse_changed, skipped_line

ROOM = 100_000_000  # bytes of this computer's disk that are left alone
LARGE = 100_000_000  # bytes: such a file has a line of its own while it comes


def tell(inventory: Inventory, run_id: str | None) -> str:
    """One line on a run whose chief cannot be asked."""
    if run_id is None and not local_state.runs(inventory.name):
        return "no run yet"
    run = Run(*local_state.find_run(inventory, run_id))
    if result := result_of(run.results):
        return f"run {run.run_id}: {result['state']}; results fetched to {run.results}"
    return f"run {run.run_id}: results {_place(inventory, run.run_id)}"


def _place(inventory: Inventory, run_id: str) -> str:
    """Where results are that are not here."""
    only = f"only on {inventory.chief.name}, which does not run: fab start, then fab fetch"
    if not inventory.bucket:
        return only
    try:
        shipped = bucket.bucket_of(inventory).manifest(run_id) is not None
    except RailheadError as error:
        return f"in {inventory.bucket} or {only} ({error.message})"
    return f"in {inventory.bucket}/runs/{run_id}: fab fetch" if shipped else only


def fetch(inventory: Inventory, run: Run, report: Reporter = lambda _: None) -> dict[str, Any]:
    """Bring a run's results here from the bucket; each is compared with the manifest by sha256.

    Args:
        report: gets a line on how much comes, and one before each large file.

    Raises:
        UsageError: they are not in the bucket. RailheadError: a file is not what was shipped.
    """
    kept = bucket.bucket_of(inventory)
    manifest = kept.manifest(run.run_id)
    if manifest is None:
        raise UsageError(
            f"results of {run.run_id} are not in {inventory.bucket}: they are only on "
            f"{inventory.chief.name}, which does not run",
            hint="fab start   # then: fab fetch",
        )
    _come(kept, run, manifest, report)
    return result_of(run.results)


def _come(kept: Bucket, run: Run, manifest: Manifest, report: Reporter) -> None:
    """Bring the files into a folder of their own, compare them, and move them to their places."""
    whole = sum(entry.bytes for entry in manifest.files)
    report(f"from {kept.store.url}: {count(len(manifest.files), 'file')}, {size(whole)}")
    with unpack.stage(run.results) as stage:
        _refuse_too_much(whole, stage)
        for entry in manifest.files:
            _bring(kept, run, entry, stage / entry.path, report)
        refuse_changed([e.path for e in manifest.files if not e.is_in(stage / e.path)])
        accept(stage, run.results, [entry.path for entry in manifest.files])
    (run.results / LEFT).unlink(missing_ok=True)
    for line in skipped_line(manifest.skipped):
        report(line)


def _refuse_too_much(whole: int, folder: Path) -> None:
    """UsageError when so many bytes would fill the disk here."""
    free = shutil.disk_usage(folder).free
    if whole > free - ROOM:
        raise UsageError(
            f"the results have {size(whole)}, and {folder.parent} has {size(free)} free: "
            f"{size(ROOM)} of it are left alone",
            hint="make room, then: fab fetch",
        )


def _bring(kept: Bucket, run: Run, entry: Entry, path: Path, report: Reporter) -> None:
    """One file of a manifest, cut off where it is longer than the manifest says."""
    if entry.bytes >= LARGE:
        report(f"  {entry.home}, {size(entry.bytes)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        kept.get(f"runs/{run.run_id}/{entry.home}", path, entry.bytes)
    except KeyError as missing:
        raise RailheadError(
            f"{missing.args[0]} is not in {kept.store.url} any more: somebody removed it",
            hint="fab start   # then: fab fetch",
        ) from None
