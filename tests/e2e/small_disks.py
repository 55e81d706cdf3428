"""A small real disk in place of a folder that a run writes in, which fills up for a while."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SIZES = {"bytes": "size=60m", "inodes": "size=60m,nr_inodes=5000"}


@contextlib.contextmanager
def small_disk(folder: Path, by: str = "bytes") -> Iterator[Path]:
    """A disk of 60 MB in place of a folder; `by`: what it has little of."""
    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", SIZES[by], "none", str(folder)]
    if os.geteuid() or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def in_next_run(runs: Path, name: str, by: str) -> Iterator[list[Path]]:
    """A small disk in place of this folder of the next run, from when that has it; the list gets
    its place. It is there before the supervisor opens a file: between are the logins."""
    earlier, places, is_over = {*runs.glob("2*")}, list[Path](), threading.Event()
    with contextlib.ExitStack() as stack:

        def wait_for_folder() -> None:
            while not places and not is_over.is_set():
                folders = (run / name for run in runs.glob("2*") if run not in earlier)
                places.extend(
                    stack.enter_context(small_disk(folder, by))
                    for folder in folders
                    if folder.exists()
                )
                time.sleep(0.005)

        thread = threading.Thread(target=wait_for_folder)
        thread.start()
        try:
            yield places
        finally:
            is_over.set()
            thread.join()


@contextlib.contextmanager
def full(disk: Path, by: str = "bytes") -> Iterator[None]:
    """No byte, or no new file, fits on a disk meanwhile."""
    paths: list[Path] = []
    for size in (1 << 20, 1 << 12, 1) if by == "bytes" else (0,):
        with _until_full():
            while True:
                path = disk / f"fill{len(paths)}"
                paths.append(path)
                with path.open("xb", buffering=0) as file:
                    while file.write(b"x" * size):
                        pass
    try:
        yield
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _until_full() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
