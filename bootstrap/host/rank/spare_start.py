"""Starts the spare of this host (spare.py), in the helper of the first rank."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time

from railhead.documents.runs.run import RunDocument

from ..base import free_memory, process_text, programs
from ..base.children import MARKS
from ..stall.counter import Counter
from . import stand_in
from .quick_import import LARGE, read_by_imports

LEAST = 1 << 30  # bytes that must be free at its start
LATER = 30.0  # seconds: start the spare then even if no step was counted


class SpareStart:
    """Starts the spare of this host, and reads the line that it prints."""

    def __init__(self, run: RunDocument, folder: str, host: int, steps: Counter) -> None:
        self.folder, self.host, self.steps = folder, host, steps
        self.name = stand_in.socket_name(run, host)
        self.ends = not run.spare or not run.retries
        self.due, self.source = time.monotonic() + LATER, -1

    def look(self) -> bytes:
        """Start the spare if it is time; returns a line about it, or b"". Never waits."""
        if self.ends:
            return b""
        if self.source >= 0:
            return self._line()
        if self.steps.count or time.monotonic() >= self.due:
            self.ends = True
            packages = [name for number, name in enumerate(LARGE) if self.steps.noted(number)]
            none = stand_in.NONE.format(host=self.host)
            lacks = not packages or os.path.exists(os.path.join(self.folder, none))
            if lacks or stand_in.is_there(self.name):
                return b""
            if free_memory.available() < LEAST:
                return b"railhead: too little memory is free for a spare process on this host\n"
            with contextlib.suppress(OSError):
                self.source, self.ends = started(self.folder, self.host, *packages), False
        return b""

    def _line(self) -> bytes:
        """A line with the memory that the spare keeps, or why it has ended."""
        if not select.select([self.source], [], [], 0)[0]:
            return b""
        self.ends = True  # its output stays open, so the spare notices the end of this process
        text = os.read(self.source, 1000).strip()
        about = b"a spare process for a restart keeps %s on this host (--no-spare)"
        if text and not text.endswith(b" MB"):
            about = b"no spare process for a restart: %s"
        return b"railhead: " + about % text + b"\n" if text else b""


def started(folder: str, host: int, *packages: str) -> int:
    """Start the spare, not as a child of this process; returns the descriptor of its output.
    OSError: there are too many processes."""
    source, sink = os.pipe()
    if child := os.fork():
        os.close(sink)
        os.waitpid(child, 0)
        return source
    try:
        os.setsid()
        if os.fork() == 0:
            null = os.open(os.devnull, os.O_RDWR)
            for number, stream in enumerate((null, sink, null)):
                os.dup2(stream, number)
            os.closerange(3, 1 << 16)
            argv = [sys.executable, programs.ARCHIVE, programs.SPARE, folder, str(host), *packages]
            os.execve(sys.executable, argv, environment())
    finally:
        os._exit(0)


def environment() -> dict[str, str]:
    """The spare's variables: those of this process without the rank's own, and room for the next
    rank's."""
    kept = {name: os.environ[name] for name in ("TMPDIR", *MARKS) if name in os.environ}
    return {**read_by_imports(os.environ), **kept, **process_text.room()}
