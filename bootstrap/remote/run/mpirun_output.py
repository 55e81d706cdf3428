"""Parses mpirun's output: the lines of each rank, which host is silent, and which rank or host
failed first. Standard library only, Python 3.10.

OpenMPI tags pieces of up to 4 kB, not lines, and a line may be interrupted by another rank's piece.
In a piece with newlines OpenMPI tags each line, and drops output beyond 8 kB. Therefore ranks end
their lines with END, never with a newline (`redirect_output` in rank.py): one tag per piece, no
loss. A rank also puts GUARD after each "]" that it prints: text that looks like the tag of another
rank stays text. ALIVE, ENDED and STEPPED are not text: a rank's helper sends them (`Heartbeat` in
rank.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

TAG = re.compile(rb"\[[^\[\]\s]*,(\d+)\]<(?:stdout|stderr)>:")
END = b"\x1e"  # ASCII's record separator
GUARD = b"\x1f"  # ASCII's unit separator
ALIVE = b"\x1d"  # ASCII's group separator
ENDED = b"\x1c"  # ASCII's file separator
STEPPED = b"\x1a"  # ASCII's substitute
NOT_TEXT = re.compile(b"[" + GUARD + ALIVE + ENDED + STEPPED + b"]")
LONGEST_TAG = 64
LONGEST_LINE = 65_536  # bytes; a longer unfinished line is passed on in parts


class MpirunOutput:
    """Splits mpirun's raw stdout into (rank, line), without END."""

    def __init__(self) -> None:
        self.raw = b""
        self.rank = 0
        self.unfinished: dict[int, bytes] = {}  # {rank: line without END so far}
        self.active: set[int] = set()  # ranks that sent something
        self.ended: set[int] = set()  # ranks whose process has ended
        self.stepped: set[int] = set()  # ranks that have completed a step

    def feed(self, chunk: bytes) -> Iterator[tuple[int, bytes]]:
        """Add output; yields the lines that are now complete."""
        self.raw += chunk
        complete = self._without_half_a_tag()
        ready, self.raw = self.raw[:complete], self.raw[complete:]
        yield from self._split(ready)

    def close(self) -> Iterator[tuple[int, bytes]]:
        """Yield the remaining lines, which have no END."""
        yield from self._split(self.raw)
        yield from ((rank, text) for rank, text in self.unfinished.items() if text)
        self.raw, self.unfinished = b"", {}

    def _without_half_a_tag(self) -> int:
        """The length of `raw` before a possibly incomplete tag."""
        at = self.raw.rfind(b"[", max(0, len(self.raw) - LONGEST_TAG))
        return len(self.raw) if at < 0 or TAG.match(self.raw, at) else at

    def _split(self, ready: bytes) -> Iterator[tuple[int, bytes]]:
        text, *tagged = TAG.split(ready)
        if text:  # else nothing came from the rank before the tag, and it may be silent
            yield from self._lines(text)
        for rank, text in zip(tagged[::2], tagged[1::2], strict=True):
            self.rank = int(rank)
            yield from self._lines(text)

    def _lines(self, text: bytes) -> Iterator[tuple[int, bytes]]:
        self.active.add(self.rank)
        if ENDED in text:
            self.ended.add(self.rank)
        if STEPPED in text:
            self.stepped.add(self.rank)
        *lines, unfinished = (self.unfinished.get(self.rank, b"") + NOT_TEXT.sub(b"", text)).split(
            END
        )
        if len(unfinished) > LONGEST_LINE:
            lines, unfinished = [*lines, unfinished], b""
        self.unfinished[self.rank] = unfinished
        for line in lines:
            yield self.rank, line


# Seconds without a byte. With 40 busy processes on 2 cores the helper came at most 2 s late; a host
# that swaps, or that its cloud moves, may be silent for longer. Ending a run that would have
# continued costs all since its last checkpoint; waiting for one that hangs costs this minute.
SILENCE = 60.0
START = 300.0  # seconds for the first one: mpirun logs in to all hosts before, and Python starts
LONGEST_WAIT = 1.0  # seconds that one wait counts: the supervisor itself may have been stopped


class Heartbeats:
    """Counts for each host the seconds in which its ranks were silent.

    mpirun finds a host that the network lost by TCP keepalive. The kernel answers keepalives also
    while orted is frozen, so mpirun never finds such a host. Therefore a helper beside each rank
    sends a byte every few seconds, whatever the rank does; also while a debugger has stopped it.
    """

    def __init__(self, slots: Sequence[int]) -> None:
        """`slots`: the number of ranks on each host; ranks fill them in order."""
        self.hosts = [host for host, count in enumerate(slots) for _ in range(count)]
        self.limits = {host: START for host in self.hosts}
        self.silent = {host: 0.0 for host in self.hosts}
        self.going = set(range(len(self.hosts)))

    def received(self, ranks: Iterable[int]) -> None:
        """Output or a heartbeat of these ranks has come."""
        for rank in ranks:
            if rank < len(self.hosts):
                self.silent[self.hosts[rank]] = 0.0
                self.limits[self.hosts[rank]] = SILENCE

    def ended(self, ranks: Iterable[int]) -> None:
        """These ranks have ended; a host without ranks may be silent."""
        self.going = self.going.difference(ranks)  # a new set: another thread reads the old one

    def waited(self, seconds: float) -> None:
        """No output has come for this time, although it would have been read."""
        for host in self.silent:
            self.silent[host] += min(seconds, LONGEST_WAIT)

    def lost(self) -> int | None:
        """The first host that has been silent for too long. The chief, 0, if all have: they are
        reached through its mpirun."""
        hosts = {self.hosts[rank] for rank in self.going}
        return min((h for h in hosts if self.silent[h] >= self.limits[h]), default=None)


# OpenMPI 4.1's messages about a failure (tests/cases/mpirun has full examples).
PATTERNS = {
    "signal": r"process rank (?P<rank>\d+) with PID \d+ on node \S+ exited on signal (?P<code>\d+)",
    "exit": r"Process name: \[\[\d+,\d+\],(?P<rank>\d+)\] Exit code: (?P<code>\d+)",
    "abort": r"MPI_ABORT was invoked on rank (?P<rank>\d+) in .{0,80}? errorcode (?P<code>-?\d+)",
    "improper": r"process rank (?P<rank>\d+) with PID \d+ on node \S+ exiting improperly",
    "lost": r"Remote daemon: \[\[\d+,\d+\],\d+\] on node \S+?-(?P<host>\d+) ",
}
LIMIT = 200_000  # characters of mpirun's messages that are searched


class Verdict(NamedTuple):
    """The first failure: a rank (killed by a signal, or exited with a code), or a lost host.

    `host` counts from 0; `code` is None for a host that was lost.
    """

    what: str
    rank: int | None = None
    code: int | None = None
    host: int | None = None


def verdict(messages: str) -> Verdict | None:
    """Find the first failure in mpirun's messages; None if they name no rank and no host."""
    text = " ".join(messages[:LIMIT].split()) + " "
    failures = [(m.start(), what, m) for what, p in PATTERNS.items() if (m := re.search(p, text))]
    if not failures:
        return None
    _, what, match = min(failures, key=lambda x: x[0])
    named = match.groupdict()
    if what == "lost":
        return Verdict(what, host=int(named["host"]) - 1)
    return Verdict(what, rank=int(named["rank"]), code=int(named.get("code") or 0))
