"""The lines of metrics.jsonl: the program of a run may have written them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from railhead.documents.codec import decode
from railhead.documents.runs.records import Record

from .decode import JsonObject, json_line

Written = JsonObject  # a record as it was written
Pair = tuple[Record, Written]
Curve = tuple[str, str, float | None]  # kind, name and rank of its records
NEAR = 5.0  # seconds before a checkpoint in which a record may belong to a later step
# Kinds of records that belong to steps. If a run started again, the records after its checkpoint
# occur twice.
OF_STEPS = ("progress", "epoch", "validation", "evaluation", "checkpoint", "metric")


def record(line: str) -> Record | None:
    """The record in a line; None if it is not one."""
    document = json_line(line)
    return decode(Record, document) if document else None


def records(metrics: Path) -> list[Record]:
    """All records of a metrics.jsonl, without repeated steps."""
    return [record for record, _ in _current(metrics)]


def raw_records(metrics: Path) -> Iterator[Written]:
    """As `records`, as they were written; skips other lines (a partial last one)."""
    return (written for _, written in _current(metrics))


def _current(metrics: Path) -> list[Pair]:
    """The records without those that an attempt after a failure has repeated."""
    attempts: list[list[Pair]] = [[]]
    for written in _lines(metrics):
        record = decode(Record, written)
        if record.kind == "start":
            attempts.append([])
        attempts[-1].append((record, written))
    current = attempts[0]
    for attempt in attempts[1:]:
        start, first = attempt[0][0], _first_steps(current, attempt)
        current = [pair for pair in current if not _is_repeated(pair[0], start, first)] + attempt
    is_script = any(record.since is not None for record, _ in current)
    return _numbered(current) if is_script else current


def _first_steps(before: list[Pair], attempt: list[Pair]) -> dict[Curve, float]:
    """{curve: its first step in an attempt}, for curves whose steps only grew before it."""
    last, first = dict[Curve, float](), dict[Curve, float]()
    for record, _ in before:
        if record.step is not None and record.kind in OF_STEPS:
            shrinks = record.step < last.get(_curve(record), 0.0)
            last[_curve(record)] = math.inf if shrinks else record.step
    for record, _ in attempt:
        if record.step is not None and last.get(_curve(record)) != math.inf:
            first.setdefault(_curve(record), record.step)
    return first


def _curve(record: Record) -> Curve:
    return record.kind, record.name, record.rank


def _numbered(current: list[Pair]) -> list[Pair]:
    """The records with the values of each metric numbered anew: the supervisor counted them by time
    alone."""
    counts: Counter[str] = Counter()
    numbered = []
    for record, written in current:
        if record.kind == "metric" and record.number is not None:
            counts[record.name] += 1
            number = counts[record.name]
            record, written = replace(record, number=number), {**written, "number": number}
        numbered.append((record, written))
    return numbered


def _lines(metrics: Path) -> Iterator[Written]:
    if metrics.is_file():
        for line in metrics.read_text(encoding="utf-8", errors="replace").splitlines():
            if written := json_line(line):
                yield written


def _is_repeated(record: Record, start: Record, first: Mapping[Curve, float]) -> bool:
    """Whether a record belongs to a step that is repeated after this start. The start has the step
    and epoch of the built-in training, or, for a script, a time from the supervisor. If the records
    of that time have a step, the first step of the new attempt is more exact."""
    if record.kind not in OF_STEPS:
        return False
    begins = first.get(_curve(record))
    if start.since is not None and record.step is not None and begins is not None:
        return record.step >= begins and (record.time or 0.0) > start.since - NEAR
    for mine, last in (
        (record.step, start.step),
        (record.epoch, start.epoch),
        (record.time, start.since),
    ):
        if mine is not None and last is not None:
            return mine > last
    return False
