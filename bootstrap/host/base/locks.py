"""File locks among the processes of a machine, or of machines that share a home.

The kernel releases a lock when its process ends, however that happens.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from os import PathLike

LONGEST = 12 * 3600.0  # seconds to wait: the holder may be downloading over a slow line
FILE = os.O_RDWR | os.O_CREAT
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@contextlib.contextmanager
def try_lock(path: str | PathLike[str], *, is_folder: bool = False) -> Iterator[bool]:
    """Hold the lock of a file, created if necessary, or of an existing folder that is not a link;
    yields False if another process has it."""
    with _opened(path, FOLDER if is_folder else FILE) as lock:
        yield _take(lock)


@contextlib.contextmanager
def wait_lock(
    path: str | PathLike[str],
    seconds: float = LONGEST,
    waiting: Callable[[], object] = lambda: None,
    every: float = 0.1,
) -> Iterator[int]:
    """Wait for the lock of a file and hold it; `waiting` is called before each pause of `every`
    seconds. Yields the file's descriptor: a process that inherits it holds the lock too.
    TimeoutError: another process held it for `seconds` seconds."""
    end = time.monotonic() + seconds
    with _opened(path, FILE) as lock:
        while not _take(lock):
            if time.monotonic() >= end:
                raise TimeoutError(f"another process has had {path} for {seconds:.0f} s")
            waiting()
            time.sleep(every)
        yield lock


@contextlib.contextmanager
def _opened(path: str | PathLike[str], flags: int) -> Iterator[int]:
    lock = os.open(path, flags, 0o666)
    try:
        yield lock
    finally:
        os.close(lock)


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
