"""The manifest of a run: its result files with bytes and sha256, to verify copies of them.

Used by the supervisor, by upload.py, and by the agent of `fab fetch`. Only regular files are
opened: a FIFO would hang, a link may point anywhere. The manifest lists all others by name and
kind.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import stat
from collections.abc import Iterator, Sequence
from typing import TypeVar

from railhead.documents.codec import decode
from railhead.documents.runs.local_names import local_name
from railhead.documents.runs.manifest import (
    FILES,
    Entry,
    Outputs,
    Sizes,
    Skipped,
    Snapshot,
    fault,
    home_name,
)
from railhead.documents.runs.run import RunDocument

from ..base.regular_files import open_regular, size_and_sha256

T = TypeVar("T")

OURS = ("outputs.json", "manifest.json", ".keep")  # in results/, never copied
# Files that are being written.
PARTS = ("result.json.part", "outputs.json.part", "manifest.json.part")
GROWING = "supervisor.log"  # written even after the end of the run
# Names in the results folder that are reserved for Railhead.
TAKEN = ("manifest.json", "state.json", "left-on-host.txt", "renamed.txt")
BEFORE = "before.json"  # the files of work/ before the run

UNREADABLE = (OSError, ValueError, RecursionError)  # errors of a missing or damaged document


class Listing:
    """The result files of a run's folder, and the skipped files with the reasons."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.files: list[tuple[str, int]] = []
        self.skipped: list[Skipped] = []
        self._homes: set[str] = set(TAKEN)
        self._folders: set[str] = set()
        self._add("run.json")
        for subfolder in ("results", "logs"):
            for name in tree(os.path.join(folder, subfolder)):
                if not is_ours(name):
                    self._add(f"{subfolder}/{name}")
        for name in outputs(folder):
            self._add(f"work/{name}")

    def _add(self, path: str) -> None:
        """Add a path to the files, or to the skipped ones with the reason."""
        with contextlib.suppress(OSError):  # removed in the meantime
            status = os.lstat(os.path.join(self.folder, path))
            kind = kind_of(path, status.st_mode) or self._clash(local_name(home_name(path)))
            if kind and len(self.skipped) < FILES:
                self.skipped.append(Skipped(path, kind))
            elif not kind:
                self.files.append((path, status.st_size))

    def _clash(self, home: str) -> str:
        """Reserve a name among the results; returns why it cannot be used, or ""."""
        above = {home[:i] for i, char in enumerate(home) if char == "/"}
        if len(self.files) >= FILES:
            return f"more than {FILES} files"
        if home in self._homes | self._folders or above & self._homes:
            return f"another file comes back as {home}"
        self._homes.add(home)
        self._folders |= above
        return ""


def is_ours(name: str) -> bool:
    """Whether a name in results/ or logs/ is an internal file, never copied."""
    return name in (*OURS, *PARTS, GROWING)


def tree(top: str) -> Iterator[str]:
    """The sorted relative paths of all non-folders below `top`; links are not followed."""
    for folder, folders, names in os.walk(top):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted([*names, *links]):
            yield os.path.relpath(os.path.join(folder, name), top)


def kind_of(path: str, mode: int) -> str:
    """Why a path is skipped: its type, or the fault in its name; "" for a valid regular file."""
    kinds = {stat.S_IFLNK: "link", stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}
    if not stat.S_ISREG(mode):
        return kinds.get(stat.S_IFMT(mode), "device")
    return f"its name {why}" if (why := fault(path)) else ""


def snapshot(folder: str) -> Snapshot:
    """Size and mtime of every file in work/, to find later which files the run wrote."""
    files = {}
    for name in tree(os.path.join(folder, "work")):
        if "__pycache__" not in name:
            with contextlib.suppress(OSError):
                status = os.lstat(os.path.join(folder, "work", name))
                files[name] = status.st_size, status.st_mtime_ns
    return files


def written(folder: str, before: Snapshot, patterns: Sequence[str]) -> Sizes:
    """{path: bytes} of matching files in work/ that are new or changed since `before`, sorted. `*`
    also matches slashes, as users expect from `--outputs '*.h5'`."""
    after = snapshot(folder)
    new = sorted(name for name in after if after[name] != before.get(name))
    matching = [name for name in new if any(fnmatch.fnmatch(name, p) for p in patterns)]
    return tuple((name, after[name][0]) for name in matching)


def outputs(folder: str) -> list[str]:
    """The files that the program wrote and that match `outputs` of run.json: the supervisor's list
    from the end of the run; without it (run in progress, supervisor died) the present files."""
    with contextlib.suppress(*UNREADABLE):
        return [name for name, _ in read_json(folder, "results/outputs.json", Outputs).files]
    with contextlib.suppress(*UNREADABLE):
        return [name for name, _ in new_outputs(folder)]
    return []


def new_outputs(folder: str) -> Sizes:
    """The files that the program has written so far and that match `outputs` of run.json. One of
    UNREADABLE: run.json or before.json is missing or damaged."""
    patterns = read_json(folder, "run.json", RunDocument).outputs
    return written(folder, read_json(folder, BEFORE, Snapshot), patterns)


def read_json(folder: str, name: str, kind: type[T]) -> T:
    """A document of the run's folder; the program may have put a FIFO there: it is not opened."""
    with open_regular(os.path.join(folder, name)) as file:
        return decode(kind, json.load(file), what=name)


def entry_of(folder: str, path: str) -> Entry:
    """The entry of one file of a run's folder; OSError if it cannot be read."""
    return Entry(path, *size_and_sha256(os.path.join(folder, path)))
