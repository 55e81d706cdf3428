"""Lines of a host or a run that are repainted on a terminal, or plain lines in a log."""

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

from railhead.documents.lazy import dataclass

from . import notebook
from .colours import board_line, colored, has_colours, is_terminal
from .output import printing_with
from .progress import Done
from .text import clean, columns_of, fit

PAINTS_PER_SECOND = 10
NOT_KNOWN = Done()
_prefix: ContextVar[str] = ContextVar("prefix", default="")
_common: ContextVar[Board | None] = ContextVar("common", default=None)
_UP, _CLEAR_RIGHT, _CLEAR_BELOW = "\x1b[{}A", "\x1b[K", "\x1b[J"


@dataclass
class _Row:
    """A line of the board, and what was printed of it elsewhere than on a terminal."""

    text: str = ""
    prefix: str = ""
    state: str = ""
    done: Done = NOT_KNOWN
    printed: str = ""
    printed_at: float = -math.inf


class Board:
    """Named lines below a scrolling text, such as one per host; use it in a `with`. Any thread may
    call it.

    On a terminal and in a notebook the lines stay and are repainted, at most ten times a second.
    Elsewhere each is printed as `[name] text`: at once if its `state` changed, otherwise at most
    once in `every` seconds; the last text of each is never lost. Nothing is written any more to a
    stream that broke: the run does not end with its display.
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
        self.live = is_terminal(stream) or self._in_notebook is not None
        self._has_colours = has_colours(stream)
        self._rows = {name: _Row() for name in names}
        self._lines: list[str] = []
        self._painted: list[int] = []  # the columns of each line of the board
        self._lock = threading.RLock()
        self._changed, self._closed = threading.Event(), threading.Event()
        self._painter = threading.Thread(target=self._paint_changes, name="board", daemon=True)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its lines."""
        return tuple(self._rows)

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
        """Add a line for each of these names that has none."""
        with self._lock:
            for name in names:
                self._rows.setdefault(name, _Row())

    def clear(self, names: Sequence[str]) -> None:
        """What these lines show is over: nothing of it stays on a terminal. Elsewhere their last
        texts are printed, if they were not yet."""
        with self._lock:
            self.flush(names)
            for name in names:
                self._rows[name] = _Row()
            self._changed.set()

    def flush(self, names: Sequence[str]) -> None:
        """Outside a terminal: print the last lines of these hosts that were not printed."""
        with self._lock:
            for name in names if not self.live else ():
                self._print(name)

    def line(self, name: str, text: str, done: Done = NOT_KNOWN, *, state: str = "") -> None:
        """Replace the text of a line; KeyError for a name that is not on the board. A terminal also
        shows how far it is as a bar."""
        with self._lock:
            row = self._rows[name]
            changed = row.state != state
            row.prefix = "" if _prefix.get() == f"{name}: " else _prefix.get()
            row.text, row.done, row.state = clean(text), done, state
            if self.live:
                self._changed.set()
            elif changed or self._clock() - row.printed_at >= self._every:
                self._print(name)

    def print_lines(self, text: str) -> None:
        """Print lines that stay, above the board."""
        with self._lock:
            lines = [_prefix.get() + clean(line) for line in text.splitlines() or [""]]
            if self.live and not self._closed.is_set():
                self._lines += lines
                self._changed.set()
            else:
                self._write("".join(f"{self._shown(line)}\n" for line in lines))

    def _print(self, name: str) -> None:
        """Print a line, unless the same line was printed last."""
        row = self._rows[name]
        line = f"{row.prefix}[{name}] {'  '.join(filter(None, (row.text, row.done.plain.strip())))}"
        if row.text and line != row.printed:
            self._write(self._shown(line) + "\n")
            row.printed, row.printed_at = line, self._clock()

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
            self._in_notebook("\n".join(name + rest for name, rest, _ in board))
            self._lines = []
            return
        # A terminal that became narrower has wrapped the lines of the old board.
        above = sum(max(1, math.ceil(width / columns)) for width in self._painted)
        up = _UP.format(above) if above else ""
        paint = board_line if self._has_colours else lambda name, rest, state: name + rest
        shown = [*map(self._shown, self._lines), *(paint(*line) for line in board)]
        # Cleared at the end: some terminals keep what is cleared from the first row on.
        lines = "".join(f"{line}{_CLEAR_RIGHT}\n" for line in shown)
        self._write(f"\r{up}{lines}{_CLEAR_BELOW}")
        self._lines, self._painted = [], [columns_of(name + rest) for name, rest, _ in board]

    def _board(self, columns: int, rows: int) -> list[tuple[str, str, str]]:
        """The lines that have a text as (name, rest, state), cut to the terminal: lines that scroll
        out cannot be repainted."""
        shown = {name: row for name, row in self._rows.items() if row.text or row.done.bar}
        width = max(map(columns_of, shown), default=0)
        room, hidden = max(rows - 2, 1), 0
        if len(shown) > room:
            hidden = len(shown) - room + 1
        lines = []
        for name, row in list(shown.items())[: len(shown) - hidden]:
            padded = fit(f"{name}{' ' * (width - columns_of(name))}  ", columns - 1)
            rest = "  ".join(filter(None, (row.done.bar, row.prefix + row.text)))
            lines.append((padded, fit(rest, columns - 1 - columns_of(padded)), row.state))
        if hidden:
            lines.append((fit(f"... and {hidden} more hosts", columns - 1), "", ""))
        return lines

    def _shown(self, line: str) -> str:
        return colored(line) if self._has_colours else line

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
            common.clear(names)
    else:
        with Board(sys.stdout, names) as board, printing_with(board.print_lines):
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


def name_of_run() -> str:
    """The name of the line of a run: that of the block of `prefixed`, if there is one."""
    return _prefix.get().removesuffix(": ") or "run"


@contextmanager
def prefixed(prefix: str) -> Iterator[None]:
    """Put `prefix` before each line that this block writes to a board."""
    token = _prefix.set(prefix)
    try:
        yield
    finally:
        _prefix.reset(token)


def _terminal_size(stream: TextIO) -> tuple[int, int]:
    """Columns and rows of the terminal of `stream`; 80 and 24 if they are not known."""
    try:
        columns, rows = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError, AttributeError):
        columns, rows = shutil.get_terminal_size()
    return columns or 80, rows or 24
