"""Uploads the logs of a run in pieces while they grow, and replaces the pieces at its end.

The chief has the logs of all ranks. Each step uploads the last piece of a log again until it is
full; after a rotation it first completes the older file. Hosts may not delete objects, so the
numbers of pieces are reused, and pieces that the results replace are emptied.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import IO

from railhead.documents.lazy import dataclass, replace
from railhead.documents.runs import live_logs
from railhead.documents.runs.live_logs import PIECE, PIECES, Piece, Progress
from railhead.documents.runs.manifest import Manifest

from ..base import json_file, regular_files
from . import upload
from .changes import birth

LOG = re.compile(r"(rank-\d{1,5}|mpirun|supervisor)\.log")  # upload.log would never rest
# Bytes of one log that a step uploads; if a log grew by more since the last step, older bytes are
# left out.
STEP = 16 << 20
EMPTYING = 60.0  # seconds after the results, in which the run's machines wait to be stopped


@dataclass
class Tail:
    """The piece of a log that is not full; it is uploaded again when the log grows."""

    begin: int
    data: bytes


class LogUpload:
    """Keeps the bucket's copy of the logs in a run's folder. `earlier`: what another process has
    uploaded; the next piece of each log is a new one."""

    def __init__(
        self, run: str, bucket: upload.Destination, earlier: Mapping[str, Progress]
    ) -> None:
        self.run, self.bucket = run, bucket
        self.logs = {name: replace(old, number=old.number + 1) for name, old in earlier.items()}
        self.tails: dict[str, Tail] = {}  # at most one piece of each log

    def step(self) -> None:
        """Upload the bytes that were added to each log. OSError, or an error of the cloud's
        library: the next step tries again."""
        for name in log_names(self.run):
            with contextlib.suppress(FileNotFoundError):
                self._log_step(name)

    def _log_step(self, name: str) -> None:
        for file, begin in self._files(name):
            with file:
                size = os.fstat(file.fileno()).st_size
                before = self.logs.get(name, Progress())
                inode, born = identity(file)
                self.logs[name] = replace(before, inode=inode, born=born, position=begin)
                self._skip(name, size - begin - STEP)
                file.seek(self.logs[name].position)
                while data := file.read(
                    min(PIECE - len(self._tail(name).data), size - file.tell())
                ):
                    self._append(name, data)

    def _skip(self, name: str, count: int) -> None:
        """Leave out the next bytes of a log; the next piece is a new one."""
        if count > 0:
            self._advance(name, count, next_piece=True)

    def _advance(self, name: str, count: int, *, next_piece: bool) -> None:
        """Note `count` more bytes of a log as sent; after them begins the next piece, or not."""
        progress = self.logs[name]
        if next_piece:
            self.tails.pop(name, None)
        position, sent = progress.position + count, progress.sent + count
        number = progress.number + next_piece
        self.logs[name] = replace(progress, position=position, sent=sent, number=number)

    def _files(self, name: str) -> Iterator[tuple[IO[bytes], int]]:
        """The files to read, the older first, and where to begin in each."""
        progress = self.logs.get(name, Progress())
        path = os.path.join(self.run, "logs", f"{name}.log")
        current = regular_files.open_regular(path)
        known = progress.inode, progress.born
        if identity(current) == known:
            size = os.fstat(current.fileno()).st_size
            yield current, min(progress.position, size)  # an incomplete line was removed
            return
        with contextlib.suppress(FileNotFoundError):
            older = regular_files.open_regular(f"{path}.1")
            if identity(older) == known:
                yield older, progress.position
            else:
                if name in self.logs:  # rotated twice: at least one unread byte is gone
                    self._advance(name, 1, next_piece=True)
                yield older, 0
        yield current, 0

    def _tail(self, name: str) -> Tail:
        return self.tails.get(name) or Tail(self.logs[name].sent, b"")

    def _append(self, name: str, data: bytes) -> None:
        """Upload the next bytes of a log, together with the piece that they extend."""
        progress, tail = self.logs[name], self._tail(name)
        tail = Tail(tail.begin, tail.data + data)
        content = live_logs.packed(Piece(tail.begin, time.time()), tail.data)
        self.bucket.write(content, live_logs.object_of(name, progress.number), short_lived=True)
        self.tails[name] = tail
        self._advance(name, len(data), next_piece=len(tail.data) >= PIECE)

    def empty(self) -> None:
        """Empty the pieces of each log that the results in the bucket contain, as many as possible
        in EMPTYING seconds: the remaining ones cost cents, and nobody reads them."""
        until = time.monotonic() + EMPTYING
        files = json_file.read(os.path.join(self.run, "results", "manifest.json"), Manifest).files
        paths = {entry.path for entry in files}
        for name, progress in self.logs.items():
            if f"logs/{name}.log" in paths:
                for number in range(min(progress.number + 1, PIECES)):
                    if time.monotonic() > until:
                        return
                    self.bucket.write(b"", live_logs.object_of(name, number), short_lived=True)


def identity(file: IO[bytes]) -> tuple[int, float]:
    """The identity of a file: its inode, which a file system reuses, and the time of its creation
    (0 if unknown)."""
    return os.fstat(file.fileno()).st_ino, birth(file.fileno()) or 0.0


def log_names(run: str) -> list[str]:
    """The logs in a run's folder, without their suffix: rank-0, mpirun, supervisor."""
    with contextlib.suppress(OSError):
        names = os.listdir(os.path.join(run, "logs"))
        return [match[1] for name in sorted(names) if (match := LOG.fullmatch(name))]
    return []
