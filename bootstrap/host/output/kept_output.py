"""The last output of a rank on the chief, in two files: mpirun reads none in the second after the
death of another rank, and a supervisor that dies none any more; what was printed then would be
lost.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Sequence

from .mpirun_output import NOT_TEXT, STAMP, STAMPS

SIZE = 1 << 19  # bytes of a file
NAME = "output-{rank}"  # in the run's folder, and with OLDER behind it
OLDER = ".1"
READ = "output-read"  # for each rank, how many bytes of it are in the logs
HEAD = b"%019d\n"  # a number of bytes: in a file of a rank, those that it had printed before


class KeptOutput:
    """Keeps the last output of a rank, as far as the disk has room."""

    def __init__(self, folder: str, rank: int) -> None:
        self.path = os.path.join(folder, NAME.format(rank=rank))
        self.count, self.begin, self.file = 0, 0, -1

    def add(self, data: bytes) -> None:
        """Add what is sent to mpirun."""
        text = NOT_TEXT.sub(b"", data)
        try:
            if self.file < 0 or self.count - self.begin > SIZE:
                self._begin()
            if text and os.write(self.file, text) != len(text):
                raise OSError
        except OSError:  # no room: what comes later begins another file
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
    """Notes what the supervisor has read and written of each rank: whole lines."""

    def __init__(self, folder: str, ranks: int) -> None:
        self.counts = [0] * ranks
        self.file = -1
        with contextlib.suppress(OSError):  # no room: what it has read at its death is not known
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self.file = os.open(os.path.join(folder, READ), flags, 0o600)
            os.write(self.file, HEAD % 0 * ranks)

    def note(self, rank: int, count: int) -> None:
        """The supervisor has read so many bytes of a rank."""
        if 0 <= rank < len(self.counts) and count != self.counts[rank] and self.file >= 0:
            self.counts[rank] = count
            with contextlib.suppress(OSError):
                os.pwrite(self.file, HEAD % count, rank * len(HEAD % 0))

    def close(self) -> None:
        """Close the file, which stays."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


def after(folder: str, rank: int, received: int, last: bytes) -> bytes:
    """What a rank has printed after so many bytes, which end with `last`; b"" where the files lack
    it."""
    start, text = _kept(folder, rank)
    offset = received - start
    fits = 0 <= offset <= len(text) and last.endswith(text[max(0, offset - len(last)) : offset])
    return text[offset:] if fits else b""


def unread(folder: str, ranks: Sequence[int]) -> dict[int, bytes]:
    """What each of these ranks has printed after what a supervisor has read, after the last time of
    a line before it. {} where the files lack it."""
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
    """The last output of a rank, and how many bytes it had printed before that."""
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
    """Remove what an earlier attempt has left."""
    for path in glob.glob(os.path.join(glob.escape(folder), NAME.format(rank="*"))):
        os.remove(path)
