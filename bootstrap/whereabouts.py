"""Where a run's results are when its chief does not run: here, in the bucket, or only there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from bootstrap import bucket, record
from bootstrap.bucket import Bucket
from bootstrap.errors import RailheadError, UsageError
from bootstrap.inventory import Inventory
from bootstrap.results import LEFT, home_name, verify
from bootstrap.run import Run
from bootstrap.show import count, size

RESULT = "results/result.json"
LARGE = 100_000_000  # bytes: such a file has a line of its own while it comes


def tell(inventory: Inventory, run_id: str | None) -> str:
    """One line on a run whose chief cannot be asked."""
    if run_id is None and not record.runs(inventory.name):
        return "no run yet"
    run = Run(*record.find_run(inventory, run_id))
    path = run.results / "result.json"
    if path.exists():
        state = json.loads(path.read_text())["state"]
        return f"run {run.run_id}: {state}; results fetched to {run.results}"
    return f"run {run.run_id}: results {_place(inventory, run.run_id)}"


def _place(inventory: Inventory, run_id: str) -> str:
    """Where results are that are not here."""
    only = f"only on {inventory.chief.name}, which does not run: fab start, then fab fetch"
    if not inventory.bucket:
        return only
    try:
        shipped = bucket.of(inventory).manifest(run_id) is not None
    except RailheadError as error:
        return f"in {inventory.bucket} or {only} ({error.message})"
    return f"in {inventory.bucket}/runs/{run_id}: fab fetch" if shipped else only


def fetch(
    inventory: Inventory, run: Run, tell: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Bring a run's results here from the bucket; each is compared with the manifest by sha256.

    Args:
        tell: gets a line on how much comes, and one before each large file.

    Raises:
        UsageError: they are not in the bucket. RailheadError: a file is not what was shipped.
    """
    kept = bucket.of(inventory)
    files = kept.manifest(run.run_id)
    if files is None:
        raise UsageError(
            f"results of {run.run_id} are not in {inventory.bucket}: they are only on "
            f"{inventory.chief.name}, which does not run",
            hint="fab start   # then: fab fetch",
        )
    whole = size(sum(entry["bytes"] for entry in files))
    tell(f"from {kept.store.url}: {count(len(files), 'file')}, {whole}")
    # The result comes last: where it is, the run counts as fetched.
    for last in (False, True):
        some = [entry for entry in files if (entry["path"] == RESULT) is last]
        _bring(kept, run, some, tell)
        verify(run.results, some, frozenset())
    (run.results / LEFT).unlink(missing_ok=True)
    result: dict[str, Any] = json.loads((run.results / "result.json").read_text())
    return result


def _bring(
    kept: Bucket, run: Run, files: list[dict[str, Any]], tell: Callable[[str], None]
) -> None:
    """Every file of a manifest; a name that leads out of the folder is refused."""
    for entry in files:
        if entry["bytes"] >= LARGE:
            tell(f"  {home_name(entry['path'])}, {size(entry['bytes'])}")
        path = (run.results / home_name(entry["path"])).resolve()
        if not path.is_relative_to(run.results.resolve()):
            raise RailheadError(f"the manifest of {run.run_id} names {entry['path']!r}: no result")
        try:
            kept.get(f"runs/{run.run_id}/{home_name(entry['path'])}", path)
        except KeyError as missing:
            raise RailheadError(
                f"{missing.args[0]} is not in {kept.store.url} any more: somebody removed it",
                hint="fab start   # then: fab fetch",
            ) from None
