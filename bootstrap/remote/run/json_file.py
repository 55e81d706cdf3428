"""Reads and writes the JSON documents of a run's folder. Standard library only, Python 3.10."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any


def load(path: str) -> Any:
    """The document in a file."""
    with open(path) as file:
        return json.load(file)


def save(path: str, document: Any) -> None:
    """Write a document whole or not at all.

    Raises:
        OSError: it cannot be written; the file is as it was.
    """
    part = f"{path}.part"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.remove(part)  # if it were a FIFO of the program, opening it would hang
        with open(part, "x") as file:
            json.dump(document, file, indent=1)
        os.replace(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.remove(part)
        raise
