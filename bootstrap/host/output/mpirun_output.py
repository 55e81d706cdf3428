"""Parses mpirun's output: the lines of each rank, silent hosts, and the first rank or host that
failed.

Open MPI 4.1 tags pieces of up to 4 kB, not lines, and a line may be interrupted by another rank's
piece. In a piece with newlines it tags each line, and drops output beyond 8 kB. Open MPI 5 tags
only lines, with a blank after the tag, and 5.0.7 and 5.0.8 mix the ranks where a piece ends inside
a line. Therefore ranks send frames of equal length (`framed`), each with one newline, at its end:
pieces of 4 kB have whole frames, each with its tag; text after a frame that has no tag is from
mpirun itself. In a frame, lines end with END. A rank also puts GUARD after each "]" of its output,
so that text that looks like the tag of another rank stays text. ALIVE, ENDED and STEPPED are not
text: a rank's helper sends them (`Heartbeat` in rank.py). Before each piece that it has read, the
helper also puts a time (`stamp`): mpirun may forward a line long after it was printed.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

# A blank belongs to the tag if a frame begins after it.
TAG = re.compile(rb"\[[^\[\]\s]*,(\d+)\]<(?:stdout|stderr)>:(?: (?=\x1f))?")
MPIRUN = -1  # the "rank" of mpirun's own output
FRAME = 512  # bytes of a frame: GUARD, text, ALIVE until it is full, a newline
END = b"\x1e"  # ASCII's record separator
GUARD = b"\x1f"  # ASCII's unit separator
ALIVE = b"\x1d"  # ASCII's group separator
ENDED = b"\x1c"  # ASCII's file separator
STEPPED = b"\x1a"  # ASCII's substitute
STAMP = b"\x19"  # ASCII's end of medium: before and after a time in microseconds since 1970
STAMPS = re.compile(rb"\x19(\d{0,17})(?:\x19|\Z)")
NOT_TEXT = re.compile(b"[" + GUARD + ALIVE + ENDED + STEPPED + b"\n]")
LIBC = ctypes.CDLL(None)
REMOVE = 3  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
LONGEST_TAG = 64
LAST = 64  # bytes of a rank's output that identify a place in it
LONGEST_LINE = 65_536  # bytes; a longer unfinished line is passed on in parts


def stamp() -> bytes:
    """The present time, to be put before output that was read now."""
    return b"%s%d%s" % (STAMP, time.time_ns() // 1000, STAMP)


def framed(data: bytes) -> bytes:
    """Output of a rank, without newlines, in frames; none for no output."""
    room = FRAME - 2
    texts = [data[start : start + room] for start in range(0, len(data), room)]
    return b"".join(GUARD + text.ljust(room, ALIVE) + b"\n" for text in texts)


class MpirunFile:
    """mpirun's stdout: a file in memory, without the part that was already read. Not a pipe: Open
    MPI 5 ends without writing output that a pipe's reader has not yet taken; 4 MB of 4.1 MB were
    lost."""

    def __init__(self) -> None:
        self.descriptor, self.position = os.memfd_create("mpirun-output"), 0

    def read(self) -> bytes:
        """The next output; b"" if there is none yet."""
        data = os.pread(self.descriptor, 1 << 16, self.position)
        if data:
            offset, length = ctypes.c_long(self.position), ctypes.c_long(len(data))
            LIBC.fallocate(self.descriptor, REMOVE, offset, length)
            self.position += len(data)
        return data

    def close(self) -> None:
        """Remove the file."""
        os.close(self.descriptor)


class MpirunOutput:
    """Splits mpirun's raw stdout into (rank, line), without END."""

    def __init__(self) -> None:
        self.raw = b""
        self.rank = MPIRUN  # until the first tag: what a host's login prints
        self.unfinished: dict[int, bytes] = {}  # {rank: line without END so far}
        self.framed: set[int] = set()  # ranks that have sent a frame
        self.active: set[int] = set()  # ranks that have sent something
        self.ended: set[int] = set()  # ranks whose process has ended
        self.stepped: set[int] = set()  # ranks that have completed a step
        # {rank: when its last line was printed, by its host's clock, in seconds since 1970}
        self.printed: dict[int, float] = {}
        self.counts: dict[int, int] = {}  # {rank: bytes of text, with its times}
        self.lasts: dict[int, bytes] = {}  # {rank: the last of these bytes}

    def feed(self, chunk: bytes) -> Iterator[tuple[int, bytes]]:
        """Add output; yields the lines that are now complete."""
        self.raw += chunk
        complete = self._without_half_a_tag()
        ready, self.raw = self.raw[:complete], self.raw[complete:]
        yield from self._split(ready)

    def drain(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines in mpirun's remaining output."""
        yield from self._split(self.raw)
        self.raw = b""

    def close(self) -> Iterator[tuple[int, bytes]]:
        """Yield the remaining lines, which have no END."""
        yield from self.drain()
        for rank, text in self.unfinished.items():
            if line := self._unstamped(rank, text):
                yield rank, line
        self.unfinished = {}

    def _without_half_a_tag(self) -> int:
        """The length of `raw` before a possibly incomplete tag, or one that a blank may follow."""
        start = self.raw.rfind(b"[", max(0, len(self.raw) - LONGEST_TAG))
        tag = TAG.match(self.raw, start) if start >= 0 else None
        is_whole = tag and self.raw[tag.end() :] not in (b"", b" ")
        return len(self.raw) if start < 0 or is_whole else start

    def _split(self, ready: bytes) -> Iterator[tuple[int, bytes]]:
        text, *tagged = TAG.split(ready)
        if text:  # otherwise the rank before the tag has sent nothing, and may be silent
            yield from self._lines(text)
        for rank, text in zip(tagged[::2], tagged[1::2], strict=True):
            self.rank = int(rank)
            yield from self._lines(text)

    def _lines(self, text: bytes) -> Iterator[tuple[int, bytes]]:
        if GUARD in text:
            self.framed.add(self.rank)
        if self.rank not in self.framed:  # from mpirun, or from the shell that starts the rank
            yield from self.of_rank(self.rank, text.replace(b"\n", END))
            return
        frame, end, rest = text.partition(b"\n")
        yield from self.of_rank(self.rank, frame)
        if end:
            self.rank = MPIRUN
        if rest:
            yield from self._lines(rest)

    def of_rank(self, rank: int, text: bytes) -> Iterator[tuple[int, bytes]]:
        """As `feed`, for output of one rank, without tags."""
        self.active.add(rank)
        if ENDED in text:
            self.ended.add(rank)
        if STEPPED in text:
            self.stepped.add(rank)
        text = NOT_TEXT.sub(b"", text)
        self.counts[rank] = self.counts.get(rank, 0) + len(text)
        self.lasts[rank] = (self.lasts.get(rank, b"") + text)[-LAST:]
        *lines, unfinished = (self.unfinished.get(rank, b"") + text).split(END)
        if len(unfinished) > LONGEST_LINE:
            lines, unfinished = [*lines, unfinished], b""
        self.unfinished[rank] = unfinished
        for line in lines:
            yield rank, self._unstamped(rank, line)

    def _unstamped(self, rank: int, line: bytes) -> bytes:
        """A line without its times; notes the last of them."""
        if STAMP not in line:
            return line
        for text in filter(None, STAMPS.findall(line)):
            self.printed[rank] = int(text) / 1e6
        return STAMPS.sub(b"", line).replace(STAMP, b"")

    def unfinished_lines(self) -> dict[int, bytes]:
        """{rank: its line without an end so far}."""
        return {rank: STAMPS.sub(b"", text) for rank, text in self.unfinished.items()}


# Seconds without a byte. With 40 busy processes on 2 cores, the helper was at most 2 s late; a host
# that swaps, or is migrated by its cloud, may be silent for longer. To end a run that would have
# continued costs all steps since its last checkpoint; to wait for one that hangs costs this minute.
SILENCE = 60.0
START = 300.0  # seconds for the first byte: mpirun first logs in to all hosts, and Python starts
ALSO = 0.8  # of the limit: a rank that beats every 5 s is silent as well
LONGEST_WAIT = 1.0  # seconds that one wait counts at most: the supervisor may have been stopped


class Heartbeats:
    """Counts for each rank the seconds in which it was silent.

    mpirun detects a host that the network has lost by TCP keepalive. But the kernel of a host
    answers keepalives even while the daemon there is frozen: mpirun never detects that. Therefore a
    helper beside each rank sends a byte every few seconds, whatever the rank does, even while a
    debugger has stopped it. If only one of several ranks of a host is silent, its helper has died,
    and nobody sees the rank's output.
    """

    def __init__(self, slots: Sequence[int]) -> None:
        """`slots`: the number of ranks on each host; ranks fill them in order."""
        self.hosts = [host for host, count in enumerate(slots) for _ in range(count)]
        self.going = set(range(len(self.hosts)))
        self.limits = dict.fromkeys(self.going, START)
        self.silent = dict.fromkeys(self.going, 0.0)

    def received(self, ranks: Iterable[int]) -> None:
        """Note that output or a heartbeat of these ranks has arrived."""
        for rank in ranks:
            if 0 <= rank < len(self.hosts):
                self.silent[rank] = 0.0
                self.limits[rank] = SILENCE

    def ended(self, ranks: Iterable[int]) -> None:
        """Note that these ranks have ended, and may be silent."""
        self.going = self.going.difference(ranks)  # a new set: another thread reads the old one

    def waited(self, seconds: float) -> None:
        """Count seconds in which output would have been read, but none arrived."""
        for rank in self.silent:
            self.silent[rank] += min(seconds, LONGEST_WAIT)

    def lost(self) -> int | None:
        """The first host with a rank that has been silent for too long; the chief (0) if all ranks
        have been: its mpirun reaches the others."""
        return min((self.hosts[rank] for rank in self.silent_ranks()), default=None)

    def silent_ranks(self) -> list[int]:
        """The ranks that have been silent for too long, and those that fell silent with them: their
        last heartbeats came a few seconds later."""
        parts = {rank: self.silent[rank] / self.limits[rank] for rank in sorted(self.going)}
        is_late = max(parts.values(), default=0.0) >= 1
        return [rank for rank, part in parts.items() if is_late and part >= ALSO]

    def silent_alone(self, host: int) -> int | None:
        """The rank of a host that is silent while other ranks of the host are not."""
        silent = [rank for rank in self.silent_ranks() if self.hosts[rank] == host]
        all_here = [rank for rank in self.going if self.hosts[rank] == host]
        return silent[0] if silent and len(silent) < len(all_here) else None

    def limit(self, host: int) -> float:
        """The seconds after which a rank of a host has been silent for too long."""
        return max(self.limits[rank] for rank, place in enumerate(self.hosts) if place == host)


# Messages of Open MPI 4.1 and 5.0 about a failure (full examples: tests/cases/mpirun). A lost
# daemon is identified by its number: 5.0 prints the host's own name, which the run does not know.
PATTERNS = {
    "signal": r"process rank (?P<rank>\d+) with PID \d+ on node \S+ exited on signal (?P<code>\d+)",
    "exit": r"Process name: \[\S+,(?P<rank>\d+)\] Exit code: (?P<code>\d+)",
    "abort": r"MPI_ABORT was invoked on rank (?P<rank>\d+) in .{0,80}? errorcode (?P<code>-?\d+)",
    "improper": r"process rank (?P<rank>\d+) with PID \d+ on node \S+ exiting improperly",
    "aborted": r"process rank (?P<rank>\d+) with PID \d+ on node \S+ calling \"abort\"",
    "lost": r"Remote daemon: \[\S+,(?P<daemon>[1-9]\d*)\] on node ",
}
LIMIT = 200_000  # characters of mpirun's messages that are searched


class Verdict(NamedTuple):
    """The first failure: a rank (killed by a signal, or exited with a code), or a lost host.
    `present` counts the hosts of the attempt from 0; `code` is None if mpirun does not print it."""

    kind: str
    rank: int | None = None
    code: int | None = None
    present: int | None = None


def verdict(messages: str) -> Verdict | None:
    """The first failure in mpirun's messages; None if they name no rank and no host."""
    text = " ".join(messages[:LIMIT].split()) + " "
    failures = [(m.start(), kind, m) for kind, p in PATTERNS.items() if (m := re.search(p, text))]
    if not failures:
        return None
    _, kind, match = min(failures, key=lambda x: x[0])
    named = match.groupdict()
    if kind == "lost":
        return Verdict(kind, present=int(named["daemon"]) - 1)
    code = None if kind == "aborted" else int(named.get("code") or 0)
    return Verdict(kind, rank=int(named["rank"]), code=code)
