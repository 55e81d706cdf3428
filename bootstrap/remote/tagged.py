"""Splits what mpirun --tag-output prints into each rank's own lines. Standard library only.

OpenMPI tags pieces, not lines: a program that writes `hello`, ` ` and a newline gets three tags on
one line, and another rank's piece may stand between them. A piece belongs to the tag before it; a
line without a tag at its start is mpirun's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

TAG = re.compile(rb"\[[^\]\s]*,(\d+)\]<(stdout|stderr)>:")
LONGEST = 65_536  # bytes of a line without an end before it is passed on in parts
MPIRUN = -1


class Tagged:
    """Feed it the raw stream; it yields (rank, line), MPIRUN for mpirun's own lines."""

    def __init__(self) -> None:
        self.raw = b""
        self.pieces: dict[tuple[int, bytes], bytes] = {}

    def feed(self, chunk: bytes) -> Iterator[tuple[int, bytes]]:
        """Lines that are complete by now, without their newline."""
        *lines, self.raw = (self.raw + chunk).split(b"\n")
        for line in lines:
            yield from self._line(line)
        if len(self.raw) > LONGEST:
            line, self.raw = self.raw, b""
            yield from self._line(line)

    def close(self) -> Iterator[tuple[int, bytes]]:
        """What was begun and never ended."""
        if self.raw:
            yield from self._line(self.raw)
        for (rank, _), begun in self.pieces.items():
            if begun:
                yield rank, begun
        self.raw, self.pieces = b"", {}

    def begun(self) -> dict[int, bytes]:
        """For each rank the text of its unfinished line: a progress bar, as far as it is."""
        found = {rank: text for (rank, _), text in self.pieces.items() if text}
        parts = TAG.split(self.raw)
        for i in range(1, len(parts), 3):
            rank = int(parts[i])
            found[rank] = found.get(rank, b"") + parts[i + 2]
        return found

    def _line(self, line: bytes) -> Iterator[tuple[int, bytes]]:
        untagged, *tagged = TAG.split(line)
        if untagged or not tagged:
            yield MPIRUN, untagged
        last = len(tagged) - 3
        for i in range(0, len(tagged), 3):
            source = int(tagged[i]), tagged[i + 1]
            text = self.pieces.pop(source, b"") + tagged[i + 2]
            if i == last or len(text) > LONGEST:
                yield source[0], text
            else:
                self.pieces[source] = text
