"""What a run leaves, each file with its bytes and sha256: by this its copies are verified.

Standard library only, Python 3.10.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from typing import Any

OURS = ("outputs.json", "manifest.json", ".keep")  # in results/, and of no use elsewhere
GROWING = "supervisor.log"  # still written to when the run has ended


def manifest(folder: str) -> dict[str, Any]:
    """The manifest of a run's folder; a file that goes meanwhile is left out."""
    files = []
    for path in paths(folder):
        with contextlib.suppress(OSError):
            size, digest = weighed(os.path.join(folder, path))
            files.append({"path": path, "bytes": size, "sha256": digest})
    return {"schema": 1, "files": files}


def paths(folder: str) -> Iterator[str]:
    """The files of a run that are results, relative to its folder."""
    yield "run.json"
    for part in ("results", "logs"):
        for name in sorted(os.listdir(os.path.join(folder, part))):
            if name not in (*OURS, GROWING) and not name.endswith(".part"):
                yield f"{part}/{name}"
    for name in outputs(folder):
        yield f"work/{name}"


def outputs(folder: str) -> list[str]:
    """The files that the program wrote and that were asked for."""
    try:
        with open(os.path.join(folder, "results", "outputs.json")) as file:
            return [name for name, _ in json.load(file)["files"]]
    except (OSError, ValueError, KeyError):
        return []


def weighed(path: str) -> tuple[int, str]:
    """A file's bytes and sha256."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while data := file.read(1 << 20):
            digest.update(data)
            size += len(data)
    return size, digest.hexdigest()


def home_name(path: str) -> str:
    """Where a file of the run's folder lies among results: results/ on top, work/ as outputs/."""
    if path.startswith("work/"):
        return "outputs/" + path[len("work/") :]
    return path[len("results/") :] if path.startswith("results/") else path
