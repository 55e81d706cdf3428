"""How the files in a program's checkpoint folder change: a checkpoint is written once or replaced,
a log is appended to.
"""

from __future__ import annotations

import ctypes
import math
import os
import struct
import threading
import time
from collections.abc import Mapping

from railhead.documents.lazy import dataclass, replace

from ..base.regular_files import open_regular
from ..run.checkpoint_files import is_fixed, walk

REST = 2.0  # seconds without a change, after which a file counts as complete
TAIL = 64  # bytes that must be unchanged if a file was appended to
# The pause between two looks: at least so many seconds, and so many times a look's duration.
PAUSE, SHARE = 0.5, 20
EVENTS = "events.out.tfevents."  # in the name of TensorBoard's files, which are always logs
BIRTH = struct.Struct("<qI")  # of `statx`, at byte 80: seconds and nanoseconds
AT, MASK, HAS_BIRTH, HERE, NO_LINK, OPEN = 80, 0x800, 0x800, -100, 0x100, 0x1000


@dataclass(frozen=True)
class Change:
    """A file as it was last seen. `begun`: when the writing of this content began, in seconds since
    1970; `since`: when it was first seen unchanged, monotonic; `is_log`: it was appended to after a
    rest; `grows`: its last change was an append."""

    inode: int
    size: int
    mtime_ns: int
    ends: tuple[bytes, bytes]
    begun: float
    since: float
    is_log: bool = False
    grows: bool = False

    def rests(self, now: float) -> bool:
        """Whether it has been unchanged for REST seconds: by its mtime, or between looks, because
        an mtime may be in the future."""
        return max(time.time() - self.mtime_ns / 1e9, now - self.since) >= REST

    def is_complete(self, now: float) -> bool:
        """Whether a file that was appended to is complete: it rests, and does not end with a
        newline, as the log of an ended program would."""
        return self.rests(now) and not self.ends[1].endswith(b"\n")


class Changes:
    """Watches the files of a folder, except those that never change."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.files: Mapping[str, Change] | None = None
        self.is_over = False

    def look(self) -> None:
        """Look once."""
        now, files, known = time.monotonic(), {}, self.files
        for path, status in walk(self.folder, ""):
            if not is_fixed(path):
                stamp = status.st_ino, status.st_size, status.st_mtime_ns
                before = known.get(path) if known else None
                if before and stamp == (before.inode, before.size, before.mtime_ns):
                    files[path] = before
                else:
                    files[path] = _seen(os.path.join(self.folder, path), stamp, before, now)
                    if known is None:  # it may have been appended to since its creation
                        files[path] = replace(files[path], begun=status.st_mtime)
        self.files = files

    def watch(self) -> None:
        """Look until `is_over` is set, in a thread: the folder may be on a slow disk."""
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self.is_over:
            begun = time.monotonic()
            self.look()
            time.sleep(max(PAUSE, SHARE * (time.monotonic() - begun)))

    def logs(self) -> set[str]:
        """The files that are not checkpoints: logs, and files that are being written."""
        now = time.monotonic()
        return {
            path
            for path, file in (self.files or {}).items()
            if is_log(path) or file.is_log or (file.grows and not file.is_complete(now))
        }

    def begun(self) -> dict[str, float]:
        """{path: when the writing of its content began}."""
        return {path: file.begun for path, file in (self.files or {}).items()}

    def restless(self) -> set[str]:
        """The files that have changed in the last REST seconds."""
        now = time.monotonic()
        return {path for path, file in (self.files or {}).items() if not file.rests(now)}


def is_log(path: str) -> bool:
    """Whether a file's name shows that it is a log."""
    return EVENTS in os.path.basename(path)


def _seen(path: str, stamp: tuple[int, int, int], before: Change | None, now: float) -> Change:
    """The `Change` of a file that is new or has changed."""
    inode, size, mtime_ns = stamp
    ends = _ends(path, size)
    if not before or inode != before.inode:
        begun = min(birth(path) or math.inf, mtime_ns / 1e9)  # a copy may have an earlier mtime
        return Change(*stamp, ends, begun, since=now)
    if size > before.size and _ends(path, before.size) == before.ends:
        had_rest = before.rests(now - PAUSE)
        return Change(*stamp, ends, before.begun, now, before.is_log or had_rest, grows=True)
    return Change(*stamp, ends, begun=mtime_ns / 1e9, since=now)


def _ends(path: str, size: int) -> tuple[bytes, bytes]:
    """The first and the last bytes of a file, up to this size."""
    try:
        with open_regular(path) as file:
            number, length = file.fileno(), min(TAIL, size)
            return os.pread(number, length, 0), os.pread(number, length, size - length)
    except OSError:
        return b"", b""


def birth(file: str | int) -> float | None:
    """When a file (a path or a descriptor) was created, in seconds since 1970; None if the file
    system does not say."""
    buffer = ctypes.create_string_buffer(256)
    location = (file, b"", OPEN) if isinstance(file, int) else (HERE, os.fsencode(file), NO_LINK)
    try:
        failed = ctypes.CDLL(None).statx(*location, MASK, buffer)
    except AttributeError:  # glibc before 2.28
        return None
    (mask,) = struct.unpack_from("<I", buffer)
    if failed or not mask & HAS_BIRTH:
        return None
    seconds, nanoseconds = BIRTH.unpack_from(buffer, AT)
    return float(seconds + nanoseconds / 1e9)
