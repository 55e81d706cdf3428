"""sweep.json: the run of each trial of a sweep, in the folder of its results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from railhead.documents.codec import Malformed, decode, encode
from railhead.documents.runs.sweep import SweepDocument

from ...errors import UsageError
from ...host.base import locks
from ...inventory.files import atomic_write
from ...report.facts import object_in
from ...runs.results import require_writable

FILE, LOCK = "sweep.json", "sweep.lock"


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock the folder of a sweep, and create it; UsageError if another command has locked it."""
    require_writable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with locks.try_lock(folder / LOCK) as free:
        if not free:
            raise UsageError(
                f"this sweep is in progress in another terminal: it uses {folder}",
                hint="the same command again   # after the other one has ended",
            )
        yield


def recorded(folder: Path) -> Mapping[str, str]:
    """{name of a trial: id of its run}; {} if nothing is recorded, or the file is damaged."""
    try:
        return decode(SweepDocument, object_in(folder / FILE)).runs
    except Malformed:
        return {}


def record(folder: Path, name: str, run_id: str | None) -> None:
    """Record the run of a trial; a run of None deletes the trial's record."""
    runs: dict[str, str | None] = {**recorded(folder), name: run_id}
    known = {name: run_id for name, run_id in runs.items() if run_id}
    document = encode(SweepDocument(1, known))
    atomic_write(folder / FILE, json.dumps(document, indent=1) + "\n")
