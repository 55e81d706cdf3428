"""Disks of hosts that took long to prepare, kept between sessions in the caches.

A disk is named by a digest of all that decides its contents, so it is never outdated.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from file_lock import locked
from hosts.base import CACHE
from places import ROOT

KEPT = 2  # disks of each kind: the present one, and that of another branch


def digest_of(paths: Iterable[str], *more: str) -> str:
    """A digest of files and folders of the repository, and of `more`."""
    total = hashlib.sha256("\n".join(more).encode())
    for path in paths:
        top = ROOT / path
        files = [top] if top.is_file() else sorted(top.rglob("*"))
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                total.update(f"{file.relative_to(ROOT)}\n".encode())
                total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:16]


@contextmanager
def prepared(kind: str, digest: str, prepare: Callable[[Path], None]) -> Iterator[Path]:
    """The disk of this kind and digest, for the `layers` of hosts; not removed within the block.

    `prepare` writes it where there is none; other processes wait for it.
    """
    folder = CACHE / f"{kind}-{digest}"
    with locked(CACHE / f"{kind}-lock"):
        if not folder.exists():
            prepare(folder)
        os.utime(folder)
        in_use = _mark(folder).open("w")
        fcntl.flock(in_use, fcntl.LOCK_SH)
        _remove_old(kind)
    with in_use:
        yield folder


def _mark(folder: Path) -> Path:
    """The file that is locked as long as somebody uses the disk."""
    return folder.with_name(f"{folder.name}.in-use")


def _remove_old(kind: str) -> None:
    """Remove all but the disks used last; never one in use. The caller holds the kind's lock."""
    disks = [path for path in CACHE.glob(f"{kind}-*") if path.is_dir()]
    for folder in sorted(disks, key=lambda path: -path.stat().st_mtime)[KEPT:]:
        with _mark(folder).open("w") as mark:
            try:
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            shutil.rmtree(folder, ignore_errors=True)
            _mark(folder).unlink()
