"""The lines of metrics.jsonl: the program of a run may have written them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from railhead.documents.codec import decode
from railhead.documents.records import Record

from .decode import json_line


def record(line: str) -> Record | None:
    """The record in a line; None if it is not one."""
    document = json_line(line)
    return decode(Record, document) if document else None


def records(metrics: Path) -> list[Record]:
    """All records of a metrics.jsonl."""
    return [decode(Record, record) for record in raw_records(metrics)]


def raw_records(metrics: Path) -> Iterator[dict[str, Any]]:
    """The same as they were written; other lines (a partial last one) are skipped."""
    if metrics.is_file():
        for line in metrics.read_text(encoding="utf-8", errors="replace").splitlines():
            if record := json_line(line):
                yield record
