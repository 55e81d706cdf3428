"""The lines of metrics.jsonl: the program of a run may have written them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from railhead.documents.codec import decode
from railhead.documents.runs.records import Record

from .decode import JsonObject, json_line

Written = JsonObject  # a record as it was written
# Records that belong to steps. Where a run started again, those after its checkpoint come twice.
OF_STEPS = ("progress", "epoch", "validation", "evaluation", "checkpoint", "metric")


def record(line: str) -> Record | None:
    """The record in a line; None if it is not one."""
    document = json_line(line)
    return decode(Record, document) if document else None


def written(line: str) -> Written | None:
    """The record in a line as it was written; None if it is not one."""
    return json_line(line)


def records(metrics: Path) -> list[Record]:
    """All records of a metrics.jsonl, those of a step once."""
    return [one for one, _ in _current(metrics)]


def raw_records(metrics: Path) -> Iterator[Written]:
    """The same as they were written; other lines (a partial last one) are skipped."""
    return (written for _, written in _current(metrics))


def _current(metrics: Path) -> list[tuple[Record, Written]]:
    """The records without those that an attempt after a failure has repeated."""
    current: list[tuple[Record, Written]] = []
    for written in _lines(metrics):
        one = decode(Record, written)
        if one.kind == "start":
            current = [pair for pair in current if not _is_repeated(pair[0], one)]
        current.append((one, written))
    return current


def _lines(metrics: Path) -> Iterator[Written]:
    if metrics.is_file():
        for line in metrics.read_text(encoding="utf-8", errors="replace").splitlines():
            if written := json_line(line):
                yield written


def _is_repeated(one: Record, start: Record) -> bool:
    """Whether a record belongs to a step that comes again after this start: the built-in training
    reports the step and the epochs before it, the supervisor a time for a script."""
    if one.kind not in OF_STEPS:
        return False
    for mine, last in ((one.step, start.step), (one.epoch, start.epoch), (one.time, start.since)):
        if mine is not None and last is not None:
            return mine > last
    return False
