"""What becomes of a run's lines: bounded logs, secrets taken out, mpirun's verdict read.

Standard library only; a full disk loses lines, never the run.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

MPIRUN = -1  # the "rank" of mpirun's own lines
LOG_LIMIT = 50_000_000  # bytes; a log then starts anew, and the part before it is kept once
TAIL = 20


class Losses:
    """What could not be written, for result.json."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def add(self, error: OSError) -> None:
        """Count one write that failed."""
        reason = error.strerror or str(error)
        self.counts[reason] = self.counts.get(reason, 0) + 1

    def told(self) -> str | None:
        """A line for people; None when nothing was lost."""
        lost = [f"{count} writes failed: {reason}" for reason, count in self.counts.items()]
        return "; ".join(lost) or None


class Lines:
    """A file that lines are added to, at most `limit` bytes and as much again in PATH.1."""

    def __init__(self, path: str, losses: Losses, limit: int | None = None) -> None:
        self.path, self.losses, self.limit = path, losses, limit
        self.tail: deque[bytes] = deque(maxlen=TAIL)
        self.written = 0
        self.file: int | None = None
        self.open()

    def open(self) -> None:
        """Open the file anew, to append."""
        try:
            self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            self.losses.add(error)

    def add(self, line: bytes) -> None:
        """Add one line without its end."""
        self.tail.append(line)
        if self.file is None:
            return
        try:
            self.written += os.write(self.file, line + b"\n")
            if self.limit and self.written > self.limit:
                self.roll()
        except OSError as error:
            self.losses.add(error)

    def roll(self) -> None:
        """Keep this part as PATH.1 and start anew."""
        os.close(self.file or 0)
        os.replace(self.path, f"{self.path}.1")
        self.file, self.written = None, 0
        self.open()

    def lines(self) -> list[str]:
        """The last lines, at most TAIL."""
        return [line.decode(errors="replace").rstrip() for line in self.tail]


class Secrets:
    """Takes secret values out of lines; of a value with several lines, each."""

    def __init__(self, values: Iterable[str]) -> None:
        found = {line.encode() for value in values for line in value.splitlines() if line.strip()}
        self.values = sorted(found, key=len, reverse=True)

    def redact(self, line: bytes) -> bytes:
        """The line with [secret] in each one's place."""
        for value in self.values:
            line = line.replace(value, b"[secret]")
        return line


def shown(text: bytes) -> str:
    """An unfinished line as a terminal shows it: after the last carriage return or backspace."""
    states = [state for state in re.split(rb"[\r\b]+", text) if state.strip()]
    return states[-1].decode(errors="replace").strip() if states else ""


@dataclass(frozen=True)
class Verdict:
    """What mpirun says of the first failure. `host` counts from 0; `key` is result.json's."""

    what: str
    rank: int | None = None
    code: int | None = None
    host: int | None = None

    @property
    def key(self) -> str:
        """The word for `code`: a signal's number or an exit code."""
        return "signal" if self.what == "signal" else "exit"


SIGNAL = re.compile(r"process rank (\d+) with PID \d+ on node \S+ exited on signal (\d+)")
EXIT = re.compile(r"Process name: \[\[\d+,\d+\],(\d+)\] Exit code: (\d+)")
IMPROPER = re.compile(r"process rank (\d+) with PID \d+ on node \S+ exiting improperly")
LOST = re.compile(r"Remote daemon: \[\[\d+,\d+\],\d+\] on node railhead-(\d+)")


def verdict(text: str) -> Verdict | None:
    """Read mpirun's own words (OpenMPI 4.1); None when they name nobody."""
    text = " ".join(text.split())
    if match := SIGNAL.search(text):
        return Verdict("signal", int(match[1]), int(match[2]))
    if match := EXIT.search(text):
        return Verdict("exit", int(match[1]), int(match[2]))
    if match := IMPROPER.search(text):
        return Verdict("improper", int(match[1]), 0)
    if match := LOST.search(text):
        return Verdict("lost", host=int(match[1]) - 1)
    return None
