"""Reads the records of a run so far, in metrics.jsonl."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

METRICS = "metrics.jsonl"  # in results/


def metric_numbers(folder: str, since: float) -> dict[str, int]:
    """How many values each --metric of a script has until `since`."""
    numbers: dict[str, int] = {}
    for record in _records(folder):
        with contextlib.suppress(KeyError, TypeError):
            if record["kind"] == "metric" and record["time"] <= since:
                numbers[record["name"]] = record["number"]
    return numbers


def last_step(folder: str) -> int | None:
    """The last step in a record; None if there is none."""
    steps = [record.get("step") for record in _records(folder)]
    return max((step for step in steps if isinstance(step, int)), default=None)


def _records(folder: str) -> Iterator[dict[str, Any]]:
    """The objects in metrics.jsonl."""
    path = os.path.join(folder, "results", METRICS)
    with contextlib.suppress(OSError), open(path, errors="replace") as lines:
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):
                record = json.loads(line)
                if isinstance(record, dict):
                    yield record
