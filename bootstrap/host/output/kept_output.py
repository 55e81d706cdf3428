"""Keeps the last output of each rank on the chief in two files. It would otherwise be lost: mpirun
reads no output in the second after another rank's death, and nobody reads it after the supervisor's
death.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Sequence

from .mpirun_output import NOT_TEXT, STAMP, STAMPS

SIZE = 1 << 19  # bytes of a file
NAME = "output-{rank}"  # in the run's folder; the older file has the suffix OLDER
OLDER = ".1"
READ = "output-read"  # for each rank, how many bytes of its output are in the logs
HEAD = b"%019d\n"  # a number of bytes; at the start of a rank's file: those printed before


class KeptOutput:
    """Keeps the last output of a rank, if the disk has room."""

    def __init__(self, folder: str, rank: int) -> None:
        self.path = os.path.join(folder, NAME.format(rank=rank))
        self.count, self.begin, self.file = 0, 0, -1

    def add(self, data: bytes) -> None:
        """Add output that is sent to mpirun."""
        text = NOT_TEXT.sub(b"", data)
        try:
            if self.file < 0 or self.count - self.begin > SIZE:
                self._begin()
            if text and os.write(self.file, text) != len(text):
                raise OSError
        except OSError:  # no room: later output starts another file
            self._close()
        self.count += len(text)

    def _begin(self) -> None:
        self._close()
        with contextlib.suppress(FileNotFoundError):
            os.replace(self.path, self.path + OLDER)
        self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self.begin = self.count
        os.write(self.file, HEAD % self.begin)

    def _close(self) -> None:
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


class ReadMarks:
    """Notes how much of each rank's output, in whole lines, the supervisor has read and written."""

    def __init__(self, folder: str, ranks: int) -> None:
        self.counts = [0] * ranks
        self.file = -1
        with contextlib.suppress(OSError):  # no room: at its death this is not known
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self.file = os.open(os.path.join(folder, READ), flags, 0o600)
            os.write(self.file, HEAD % 0 * ranks)

    def note(self, rank: int, count: int) -> None:
        """Note that the supervisor has read so many bytes of a rank."""
        if 0 <= rank < len(self.counts) and count != self.counts[rank] and self.file >= 0:
            self.counts[rank] = count
            with contextlib.suppress(OSError):
                os.pwrite(self.file, HEAD % count, rank * len(HEAD % 0))

    def close(self) -> None:
        """Close the file; it is not removed."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


def after(folder: str, rank: int, received: int, last: bytes) -> bytes:
    """The output of a rank after its first `received` bytes, which end with `last`; b"" if the
    files lack it."""
    start, text = _kept(folder, rank)
    offset = received - start
    fits = 0 <= offset <= len(text) and last.endswith(text[max(0, offset - len(last)) : offset])
    return text[offset:] if fits else b""


def unread(folder: str, ranks: Sequence[int]) -> dict[int, bytes]:
    """{rank: its output after the part that a supervisor has read}; it starts with the time of the
    last line before it. {} if the files lack it."""
    from ..base.regular_files import open_regular

    texts = {}
    with contextlib.suppress(OSError, ValueError), open_regular(os.path.join(folder, READ)) as file:
        for rank in ranks:
            file.seek(rank * len(HEAD % 0))
            start, text = _kept(folder, rank)
            offset = int(file.read(len(HEAD % 0))) - start
            if 0 <= offset < len(text):
                times = STAMPS.findall(text[:offset])
                texts[rank] = b"".join(STAMP + time + STAMP for time in times[-1:]) + text[offset:]
    return texts


def _kept(folder: str, rank: int) -> tuple[int, bytes]:
    """The number of bytes that a rank had printed before its last output, and this output."""
    from ..base.regular_files import open_regular  # a rank loads this module, too

    path = os.path.join(folder, NAME.format(rank=rank))
    text, start = b"", 0
    for name in (path + OLDER, path):
        with contextlib.suppress(OSError, ValueError), open_regular(name) as file:
            begin = int(file.read(len(HEAD % 0)))
            if begin != start + len(text):
                text, start = b"", begin
            text += file.read(2 * SIZE)
    return start, text


def remove(folder: str) -> None:
    """Remove the files of an earlier attempt."""
    for path in glob.glob(os.path.join(glob.escape(folder), NAME.format(rank="*"))):
        os.remove(path)
