"""Output of a command: progress lines for people, JSON for programs, and questions."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TextIO, cast

from railhead.documents.codec import encode

from ..errors import Command, Hint, UsageError
from .colours import colored, has_colours
from .text import clean

Reporter = Callable[[str], None]  # receives a line about the progress of a command
ByteReporter = Callable[[int], None]  # receives the number of bytes so far
TransferReporter = Callable[[int, int], None]  # receives the bytes so far, and those of all
_quiet: ContextVar[TextIO | None] = ContextVar("quiet", default=None)  # the stdout of results
_noted: ContextVar[Any] = ContextVar("noted", default=None)
_printer: ContextVar[Reporter | None] = ContextVar("printer", default=None)


def print_lines(*lines: str) -> None:
    """Print lines and flush, so that they appear at once in a pipe too.

    Control characters are removed: file names, output and ids may come from a host.
    """
    for line in lines:
        if printer := _printer.get():
            printer(printable(line))
        else:
            # In one write: other threads print too.
            print(f"{shown_on(sys.stdout, line)}\n", end="", flush=True)


@contextmanager
def printing_with(printer: Reporter) -> Iterator[None]:
    """In the block and its threads, `print_lines` passes each line to `printer`."""
    token = _printer.set(printer)
    try:
        yield
    finally:
        _printer.reset(token)


def shown_on(stream: TextIO, text: str) -> str:
    """Printable text, with colours where the stream has them."""
    return colored(printable(text)) if has_colours(stream) else printable(text)


def printable(text: str) -> str:
    """Text without terminal escapes and control characters, except its line breaks."""
    return "\n".join(clean(line) for line in text.split("\n"))


def confirm(question: str, *, hint: Hint | Command | str, answer: str = "y") -> bool:
    """Ask on the terminal; whether `answer` was typed ("y" also in upper case).

    Args:
        hint: the command that does not ask.

    Raises:
        UsageError: stdin is not a terminal, so nobody can answer.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            f"{question}\nstdin is not a terminal: the question cannot be answered", hint=hint
        )
    question = printable(question)
    with redirect_stdout(_quiet.get() or sys.stdout):
        if answer == "y":
            return input(f"{question} [y/N] ").strip().lower() == "y"
        return input(f"{question}: ").strip() == answer


def print_result(*lines: str) -> None:
    """Print lines that are the result of a task: also with --quiet."""
    if (stream := _quiet.get()) is None:
        print_lines(*lines)
        return
    for line in lines:
        print(shown_on(stream, line), file=stream, flush=True)


@contextmanager
def quiet() -> Iterator[None]:
    """In the block, only `print_result`, JSON and questions are shown on stdout."""
    token = _quiet.set(sys.stdout)
    try:
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
            yield
    finally:
        _quiet.reset(token)


def note_output(document: Any) -> None:
    """Note what the task prints at its end with --json: a document, or a list of documents. It
    replaces what was noted before, as `fab evaluate` does after a run."""
    _noted.set(document)


def noted_output() -> Any:
    """What was noted last; None if nothing was."""
    return _noted.get()


class _Watched(io.TextIOBase):
    """A stream, and whether something was written to it."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.is_used = stream, False

    def write(self, text: str) -> int:
        self.is_used = True
        return self.stream.write(text)

    def flush(self) -> None:
        self.stream.flush()


@contextmanager
def error_as_json(as_json: bool, document: Callable[[Any], Any]) -> Iterator[None]:
    """With --json, an error of the block is a document on stdout, unless there is one already.

    Args:
        document: makes it of the error.
    """
    if not as_json:
        yield
        return
    stdout = sys.stdout
    watched = _Watched(stdout)
    try:
        with redirect_stdout(cast(TextIO, watched)):
            yield
    except BrokenPipeError:
        raise
    except BaseException as error:
        if not watched.is_used:
            _print_document(document(error), stdout)
        raise


def _print_document(document: Any, out: TextIO) -> None:
    print(json.dumps(encode(document), indent=1, allow_nan=False), file=out, flush=True)


@contextmanager
def json_output(as_json: bool) -> Iterator[TextIO | None]:
    """With --json, reserve stdout for the JSON document: lines for people go to stderr.

    At the end, also after an error, it has the noted document."""
    out = _quiet.get() or sys.stdout
    if not as_json:
        yield None
        return
    token = _noted.set(None)
    stream = _quiet.set(sys.stderr if _quiet.get() else None)  # of results and questions
    try:
        with redirect_stdout(sys.stdout if _quiet.get() else sys.stderr):
            yield out
    finally:
        _quiet.reset(stream)
        if (noted := _noted.get()) is not None:
            _print_document(noted, out)
        _noted.reset(token)
