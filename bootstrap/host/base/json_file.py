"""Reads and writes the JSON documents of a run's folder."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from typing import Any, TypeVar

from railhead.documents.codec import decode, encode

T = TypeVar("T")


def load(path: str) -> Any:
    """The document in a file."""
    with open(path) as file:
        return json.load(file)


def read(path: str, kind: type[T]) -> T:
    """The document of this kind in a file. OSError: it cannot be read. ValueError: it is
    damaged."""
    return decode(kind, load(path), what=os.path.basename(path))


def if_any(path: str, kind: type[T]) -> T | None:
    """As `read`; None if there is no such file."""
    try:
        return read(path, kind)
    except FileNotFoundError:
        return None


def intact(path: str, kind: type[T]) -> T | None:
    """As `read`; None if the document is missing or damaged."""
    try:
        return read(path, kind)
    except (OSError, ValueError, RecursionError):
        return None


def take(path: str) -> Any:
    """The document in a file, which is then removed: secrets, for the only process that needs
    them."""
    document = load(path)
    os.remove(path)
    return document


def load_object(path: str, limit: int = 10_000_000) -> dict[str, Any]:
    """The object in a file that the user's program may have written; {} if there is none, or the
    file has more than `limit` bytes."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode) or os.path.getsize(path) > limit:
            return {}
        document = load(path)
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def save(path: str, document: Any) -> None:
    """Write a document, a dataclass or JSON values, whole or not at all. OSError: it cannot be
    written; the file is as it was."""
    partial = f"{path}.part"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.remove(partial)  # it may be a FIFO of the program: to open it would hang
        with open(partial, "x") as file:
            json.dump(encode(document), file, indent=1)
        os.replace(partial, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.remove(partial)
        raise
