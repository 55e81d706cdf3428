"""The complete files of a checkpoint folder, and the objects of their upload.

A folder `step-*` with manifest.json and state.npz is one checkpoint of the built-in training:
complete, and never changed again. All other files belong to the program; a name that begins with a
dot is an incomplete file.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator

from railhead.documents.runs.manifest import fault

FOLDER = "checkpoints"
MANIFEST = "manifest.json"
OF_TRAINING = ("state.npz", MANIFEST)  # the files of a checkpoint of the built-in training
STEP = re.compile(r"step-\d{8,}")
FILES = 10_000  # of one checkpoint folder: the newest

Stamp = tuple[int, int]  # bytes, and the time of the last change in nanoseconds


def complete_files(folder: str) -> dict[str, Stamp]:
    """The regular files below `folder` that may be copied: {path: (bytes, mtime in ns)}, sorted. If
    there are more than FILES, the newest: a program continues from those."""
    stamps = {path: (status.st_size, status.st_mtime_ns) for path, status in walk(folder, "")}
    newest_first = sorted(complete(stamps), key=lambda path: stamps[path][1], reverse=True)
    return {path: stamps[path] for path in sorted(newest_first[:FILES])}


def complete(paths: Collection[str]) -> list[str]:
    """The paths, in their order, without names that begin with a dot or that manifests forbid, and
    without `step-*` folders that have no manifest, or a forbidden name."""
    known = set(paths)
    faulty = {path.partition("/")[0] for path in paths if fault(path)}

    def is_complete(path: str) -> bool:
        hidden = any(name.startswith(".") for name in path.split("/")) or bool(fault(path))
        folder = path.partition("/")[0]
        torn = is_fixed(path) and (f"{folder}/{MANIFEST}" not in known or folder in faulty)
        return not hidden and not torn

    return [path for path in paths if is_complete(path)]


def walk(root: str, below: str) -> Iterator[tuple[str, os.stat_result]]:
    """Regular files below `root`/`below` with their status; no link is followed."""
    try:
        entries = list(os.scandir(os.path.join(root, below)))
    except OSError:  # removed meanwhile
        return
    for entry in entries:
        path = f"{below}/{entry.name}" if below else entry.name
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from walk(root, path)
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            yield path, status


def object_of(number: int) -> str:
    """The name of an uploaded file's object, below the run's folder in the bucket."""
    return f"{FOLDER}/files/{number:04d}"


def first_object(term: int) -> int:
    """The first object number of uploads in this term of the run's lease: a host that loses the
    lease during an upload must not write an object of a later term."""
    return (term - 1) * 2 * FILES


def is_fixed(path: str) -> bool:
    """Whether a file belongs to a checkpoint of the built-in training, so that it never changes. A
    program may have its own `step-*` folders."""
    top, _, name = path.partition("/")
    return name in OF_TRAINING and bool(STEP.fullmatch(top))


def newest(paths: list[str] | dict[str, Stamp]) -> str:
    """The newest `step-*` folder among the paths; "" if there is none."""
    steps = {path.partition("/")[0] for path in paths if is_fixed(path)}
    return max(steps, key=step_of, default="")


def step_of(name: str) -> int:
    """The step after which the checkpoint in a `step-*` folder was written."""
    return int(name.rpartition("-")[2])
