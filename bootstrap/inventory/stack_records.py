"""What this computer knows about stacks, by their ids: ~/.railhead/stacks/ID.json.

A record is enough to find a stack's machines without Pulumi's state. It is written whenever a
command has read the state, and deleted when a receipt has verified that everything is gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime, timezone
from pathlib import Path

from railhead.documents.codec import decode, encode
from railhead.documents.lazy import dataclass
from railhead.documents.names import is_name
from railhead.documents.times import moment

from . import local_state
from .files import atomic_write
from .stack_state import StackState


@dataclass(frozen=True)
class KnownMachine:
    """A machine as it was last seen. `until`: when its cloud stops it, UTC; None: not known."""

    name: str
    until: str | None = None


@dataclass(frozen=True)
class StackRecord:
    """Where a stack is. `machines` are those seen last, by their ids. `backend` is the address of
    the Pulumi backend that has its state."""

    cluster_id: str
    cluster: str
    stack: str
    cloud: str
    region: str | None = None
    project: str | None = None
    account: str | None = None
    bucket: str | None = None
    backend: str | None = None
    machines: Mapping[str, KnownMachine] = field(default_factory=dict)


def save(record: StackRecord) -> None:
    """Write a record if it differs from the stored one with the same id."""
    if is_name(record.cluster_id) and record != find(record.cluster_id):
        _write(record)


def save_state(state: StackState, backend: str | None = None) -> None:
    """Record a stack of a cloud, as Pulumi's state in this backend has it. A later deadline that
    this computer knows is kept."""
    if not state.cluster_id or not state.cloud:
        return
    before = find(state.cluster_id)
    known = before.machines if before else {}
    record = StackRecord(
        cluster_id=state.cluster_id,
        cluster=state.cluster or state.stack,
        stack=state.stack,
        cloud=state.cloud,
        region=state.region,
        project=state.project,
        account=state.account,
        bucket=state.bucket,
        backend=backend,
        machines={m.id: known.get(m.id) or KnownMachine(m.name, m.until) for m in state.machines},
    )
    save(record)


def note_deadlines(cluster_id: str | None, machines: Mapping[str, KnownMachine]) -> None:
    """Record when the cloud stops the machines, by their ids."""
    record = find(cluster_id) if cluster_id else None
    if record and record.machines != {**record.machines, **machines}:
        _write(replace(record, machines={**record.machines, **machines}))


def find(cluster_id: str) -> StackRecord | None:
    """The record of a stack; None if there is none, or it is damaged."""
    return _read(_path(cluster_id)) if is_name(cluster_id) else None


def of_stack(stack: str) -> list[StackRecord]:
    """The records of all stacks that had this name."""
    return [record for record in every() if record.stack == stack]


def every() -> list[StackRecord]:
    """All records that can be read."""
    return [r for path in sorted(_folder().glob("*.json")) if (r := _read(path))]


def describe(machines: Mapping[str, str], cluster_id: str | None) -> list[str]:
    """A line for each machine (names by id) that may run, for use when its cloud does not
    answer."""
    record = find(cluster_id) if cluster_id else None
    known = record.machines if record else {}
    return [f"[{name}] {_may_run(id_, known.get(id_))}" for id_, name in machines.items()]


def _may_run(machine: str, known: KnownMachine | None) -> str:
    until = moment(known.until) if known and known.until else None
    if until is None:
        return f"{machine} may run; when its cloud stops it is not known here"
    if until < datetime.now(timezone.utc):
        return f"{machine}: its cloud was to stop it at {until:%Y-%m-%d %H:%M} UTC; it may run"
    return f"{machine} may run; its cloud stops it at {until:%Y-%m-%d %H:%M} UTC"


def forget(cluster_id: str | None) -> None:
    """Delete the record of a stack of which nothing exists any more."""
    if cluster_id and is_name(cluster_id):
        _path(cluster_id).unlink(missing_ok=True)


def _write(record: StackRecord) -> None:
    atomic_write(_path(record.cluster_id), json.dumps(encode(record), indent=1) + "\n")


def _read(path: Path) -> StackRecord | None:
    try:
        return decode(StackRecord, json.loads(path.read_text()))
    except (OSError, ValueError, RecursionError):
        return None


def _folder() -> Path:
    return local_state.home() / "stacks"


def _path(cluster_id: str) -> Path:
    return _folder() / f"{cluster_id}.json"
