"""One line per host that is repainted on a terminal, or plain lines in a log."""

from __future__ import annotations

import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import TextIO

from . import notebook
from .output import printing_with
from .text import clean, columns_of, fit

PAINTS_PER_SECOND = 10
_prefix: ContextVar[str] = ContextVar("prefix", default="")
_common: ContextVar[Board | None] = ContextVar("common", default=None)
_UP, _CLEAR_RIGHT, _CLEAR_BELOW = "\x1b[{}A", "\x1b[K", "\x1b[J"


class Board:
    """A line per host below a scrolling text; use it in a `with`. Any thread may call it.

    On a terminal and in a notebook the lines stay and are repainted, at most ten times a second.
    Elsewhere each is printed as `[host] text`: at once if its `state` changed, otherwise at most
    once in `every` seconds; the last line of each host is never lost. Nothing is written any more
    to a stream that broke: the run does not end with its display.
    """

    def __init__(
        self,
        stream: TextIO,
        names: Sequence[str],
        *,
        every: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream, self._every, self._clock = stream, every, clock
        self._in_notebook = notebook.painter() if stream is sys.stdout else None
        self.live = _is_terminal(stream) or self._in_notebook is not None
        self.names = tuple(names)
        self._texts = dict.fromkeys(names, "")
        self._prefixes = dict.fromkeys(names, "")
        self._states = dict.fromkeys(names, "")
        self._printed = dict.fromkeys(names, "")
        self._printed_at = dict.fromkeys(names, -math.inf)
        self._lines: list[str] = []
        self._rows = 0
        self._lock = threading.RLock()
        self._changed, self._closed = threading.Event(), threading.Event()
        self._painter = threading.Thread(target=self._paint_changes, name="board", daemon=True)

    def __enter__(self) -> Board:
        if self.live:
            self._painter.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed.set()
        self._changed.set()
        if self.live:
            self._painter.join()
        with self._lock:
            if self.live:
                self._paint()
            self.flush(self.names)

    def add(self, names: Sequence[str]) -> None:
        """Add a line for each of these hosts that has none."""
        with self._lock:
            for name in names:
                for texts in (self._texts, self._prefixes, self._states, self._printed):
                    texts.setdefault(name, "")
                self._printed_at.setdefault(name, -math.inf)
            self.names = tuple(self._texts)

    def flush(self, names: Sequence[str]) -> None:
        """Outside a terminal: print the last lines of these hosts that were not printed."""
        with self._lock:
            for name in names if not self.live else ():
                self._print(name)

    def line(self, name: str, text: str, *, state: str = "") -> None:
        """Replace the text of a host; KeyError for a name that is not on the board."""
        with self._lock:
            changed = self._states[name] != state
            self._prefixes[name] = _prefix.get()
            self._texts[name], self._states[name] = clean(text), state
            if self.live:
                self._changed.set()
            elif changed or self._clock() - self._printed_at[name] >= self._every:
                self._print(name)

    def print_lines(self, text: str) -> None:
        """Print lines that stay, above the board."""
        with self._lock:
            lines = [_prefix.get() + clean(line) for line in text.splitlines() or [""]]
            if self.live:
                self._lines += lines
                self._changed.set()
            else:
                self._write("".join(f"{line}\n" for line in lines))

    def _print(self, name: str) -> None:
        """Print a host's line, unless the same line was printed last."""
        text = self._texts[name]
        line = f"{self._prefixes[name]}[{name}] {text}\n"
        if text and line != self._printed[name]:
            self._write(line)
            self._printed[name], self._printed_at[name] = line, self._clock()

    def _paint_changes(self) -> None:
        """The painting thread: a change appears even if no other change follows it."""
        while not self._closed.is_set():
            self._changed.wait()
            self._changed.clear()
            with self._lock:
                self._paint()
            self._closed.wait(1 / PAINTS_PER_SECOND)

    def _paint(self) -> None:
        """Paint the printed lines and the board over the old board, in one write.

        The cursor ends on the line below the board and is never hidden: there is nothing to
        restore, however the process ends.
        """
        columns, rows = _terminal_size(self._stream)
        board = self._board(columns, rows)
        if self._in_notebook:
            self._write("".join(f"{line}\n" for line in self._lines))
            self._in_notebook("\n".join(board))
            self._lines = []
            return
        up = _UP.format(self._rows) if self._rows else ""
        lines = "".join(f"{line}{_CLEAR_RIGHT}\n" for line in (*self._lines, *board))
        self._write(f"\r{up}{lines}{_CLEAR_BELOW}")
        self._lines, self._rows = [], len(board)

    def _board(self, columns: int, rows: int) -> list[str]:
        """The hosts' lines, cut to the terminal: lines that scroll out cannot be repainted."""
        width = max((columns_of(name) for name in self._texts), default=0)
        lines = [
            f"{name}{' ' * (width - columns_of(name))}  {self._prefixes[name]}{text}"
            for name, text in self._texts.items()
        ]
        room = max(rows - 2, 1)
        if len(lines) > room:
            lines = [*lines[: room - 1], f"... and {len(lines) - room + 1} more hosts"]
        return [fit(line, columns - 1) for line in lines]

    def _write(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        try:
            self._stream.write(text.encode(encoding, "replace").decode(encoding))
            self._stream.flush()
        except (OSError, ValueError):  # a closed pipe or stream
            return


@contextmanager
def board_of(names: Sequence[str]) -> Iterator[Board]:
    """A board on stdout with a line for each name; inside a `common_board`, the common one."""
    if common := _common.get():
        common.add(names)
        try:
            yield common
        finally:
            common.flush(names)
    else:
        with Board(sys.stdout, names) as board:
            yield board


@contextmanager
def common_board(names: Sequence[str]) -> Iterator[None]:
    """One board for all runs of this block and its threads; `print_lines` prints above it."""
    with Board(sys.stdout, names) as board, printing_with(board.print_lines):
        token = _common.set(board)
        try:
            yield
        finally:
            _common.reset(token)


@contextmanager
def prefixed(prefix: str) -> Iterator[None]:
    """Put `prefix` before each line that this block writes to a board."""
    token = _prefix.set(prefix)
    try:
        yield
    finally:
        _prefix.reset(token)


def _is_terminal(stream: TextIO) -> bool:
    """Whether the cursor can be moved on `stream`."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")


def _terminal_size(stream: TextIO) -> tuple[int, int]:
    """Columns and rows of the terminal of `stream`; 80 and 24 if they are not known."""
    try:
        columns, rows = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError, AttributeError):
        columns, rows = shutil.get_terminal_size()
    return columns or 80, rows or 24
