"""Damaged versions of a text: of its bytes, or of the values in its JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

# No small positive number: where a process id is expected, it could be a real one.
NUMBERS = [0, -1, 1, 2**31, 2**63, 2**70, 0.5, -1e300, float("inf"), float("nan")]
TEXTS = [
    "",
    " ",
    "..",
    "../../outside",
    "/proc/nonexistent",
    "a" * 5000,
    "é",
    "\x1b[31m",
    "\x00",
    "\n",
]
WORDS = ["aws", "gcp", "local", "hosts", "running", "succeeded", "failed", "1", "nan", "\ud800"]
VALUES: list[Any] = [None, True, False, *NUMBERS, *TEXTS, *WORDS, [], {}, [[]], [None], {"": 0}]
REAL_PIDS = range(2, 4_194_305)  # the largest one that Linux gives


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Other bytes; where `data` is JSON mostly another document."""
    while True:
        changed = _changed_json(rng, data) if rng.random() < 0.7 else _changed_bytes(rng, data)
        if not _names_a_process(changed):
            return changed


def _changed_bytes(rng: random.Random, data: bytes) -> bytes:
    begin, end = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
    ways: list[Callable[[], bytes]] = [
        lambda: b"",
        lambda: data[:begin],
        lambda: data[:begin] + data[end:],
        lambda: data[:begin] + rng.randbytes(rng.randint(1, 20)) + data[begin:],
        lambda: data + data[begin:],
        lambda: rng.randbytes(200),
        lambda: b"[" * 50_000,
        lambda: b"\x1b]0;title\x07" + data,
    ]
    return rng.choice(ways)()


def _changed_json(rng: random.Random, data: bytes) -> bytes:
    try:
        document = json.loads(data)
    except ValueError:
        return _changed_bytes(rng, data)
    return json.dumps(_changed(rng, document)).encode()


def _changed(rng: random.Random, value: Any) -> Any:
    """The document with one value replaced, removed or added, at any depth."""
    inner = list(value if isinstance(value, dict) else ())
    inner += range(len(value)) if isinstance(value, list) else ()
    if not inner or rng.random() < 0.15:
        return _with_another(rng, value)
    key = rng.choice(inner)
    if rng.random() < 0.15:
        return _without(value, key)
    return _with(value, key, _changed(rng, value[key]))


def _with_another(rng: random.Random, value: Any) -> Any:
    new = rng.choice(VALUES)
    if isinstance(value, list) and rng.random() < 0.5:
        return [*value, new]
    if isinstance(value, dict) and rng.random() < 0.5:
        return {**value, rng.choice(TEXTS): new}
    return new


def _without(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        return {k: v for k, v in value.items() if k != key}
    return [*value[:key], *value[key + 1 :]]


def _with(value: Any, key: Any, new: Any) -> Any:
    if isinstance(value, dict):
        return {**value, key: new}
    return [*value[:key], new, *value[key + 1 :]]


def _names_a_process(data: bytes) -> bool:
    """Whether it has the pid of what may be a process of this machine."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and any(
        isinstance(document.get(key), int) and document[key] in REAL_PIDS
        for key in ("pid", "mpirun")
    )
