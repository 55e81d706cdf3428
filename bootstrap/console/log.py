"""The debug log: everything that a command runs, with host, time, exit code and size.

Each `fab` command writes one file to ~/.railhead/logs. The file is created with the first line, so
a command that runs nothing leaves none. The log contains no file contents, no environment and no
secrets. A log that cannot be written never fails a command.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railhead.installation import PROGRAM

from .interrupts import process_options
from .redact import add_secret, redacted, redacted_argv
from .text import clean

__all__ = ("add_secret", "command", "event", "mistake", "run", "shown", "started", "timed")
KEPT_FILES = 50
KEPT_BYTES = 100_000_000
FILE_BYTES = 20_000_000  # of one file; after that only errors are written
COMMAND_COLUMNS = 100  # of a command that is quoted in a line

_logger = logging.getLogger("railhead")
_logger.setLevel(logging.DEBUG)
_logger.propagate = False  # Invoke's --debug adds a handler to the root logger
_logger.addHandler(logging.NullHandler())


class _Redacted(logging.Formatter):
    """Lines with the time in UTC, without secrets and control characters."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(message)s", "%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        lines = redacted(super().format(record)).splitlines()
        return "\n    ".join(clean(line) for line in lines)


class LogFile(logging.Handler):
    """The log file of one command. `path` is None until the first line is written."""

    def __init__(self, task: str, header: str) -> None:
        super().__init__()
        self.setFormatter(_Redacted())
        self.path: Path | None = None
        self._task, self._header = task, header
        self._descriptor: int | None = None
        self._written = 0
        self._failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Append a line; after the first failure nothing more is written."""
        if self._failed or (self._written > FILE_BYTES and record.levelno < logging.ERROR):
            return
        try:
            if self._descriptor is None:
                self._open()
            self._write(self.format(record))
        except (OSError, RuntimeError, ValueError):  # RuntimeError: no home folder
            self._failed, self.path = True, None

    def _open(self) -> None:
        folder = Path.home() / ".railhead" / "logs"
        for created in (folder.parent, folder):
            created.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        name = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{self._task}-{os.getpid()}.log"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        self._descriptor = os.open(folder / name, flags, 0o600)
        self.path = folder / name
        self._write(self._header)
        remove_old(folder)

    def _write(self, text: str) -> None:
        assert self._descriptor is not None
        line = f"{text}\n".encode(errors="backslashreplace")
        if os.write(self._descriptor, line) < len(line):
            raise OSError("the disk is full")
        self._written += len(line)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
        self._descriptor, self._failed = None, True
        super().close()


if TYPE_CHECKING:
    _Stderr = logging.StreamHandler[Any]  # Python 3.10 has no such type
else:
    _Stderr = logging.StreamHandler


class _Live(_Stderr):
    """The lines on stderr, for --debug."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(_Redacted())
        # The traceback of an unexpected error is printed anyway.
        self.addFilter(lambda record: record.levelno < logging.ERROR)

    def handleError(self, record: logging.LogRecord) -> None:
        """A closed stderr does not fail the command."""


def remove_old(folder: Path) -> None:
    """Remove all but the newest files; keep the log of a command that is still running."""
    size = FILE_BYTES  # the newest may still grow to this size
    for number, path in enumerate(sorted(folder.glob("*.log"), reverse=True)):
        with contextlib.suppress(FileNotFoundError):  # another command removes files too
            size += path.lstat().st_size
            if (number >= KEPT_FILES or size > KEPT_BYTES) and not _is_running(path):
                path.unlink()


def _is_running(path: Path) -> bool:
    """Whether the process that a log file is named after is still running."""
    try:
        os.kill(int(path.stem.rpartition("-")[2]), 0)
    except (ValueError, OverflowError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


@contextlib.contextmanager
def command(task: str, argv: Sequence[str], *, live: bool = False) -> Iterator[LogFile]:
    """Log one `fab` command; with `live`, also to stderr."""
    header = redacted(f"{PROGRAM} {shlex.join(redacted_argv(list(argv)))}\n    in {Path.cwd()}")
    file = LogFile(task, header)
    handlers: list[logging.Handler] = [file, *([_Live()] if live else [])]
    for handler in handlers:
        _logger.addHandler(handler)
    began, code, message = time.monotonic(), 0, ""
    try:
        yield file
    except BaseException as error:
        code, message = getattr(error, "code", 1), f": {error}"
        raise
    finally:
        if live or file.path:
            event(f"exit {code} ({_seconds(began)}){message}")
        for handler in handlers:
            _logger.removeHandler(handler)
            handler.close()


def event(text: str) -> None:
    """Log one line."""
    _logger.debug("%s", text)


def mistake() -> None:
    """Log the traceback of an unexpected exception."""
    _logger.error("unexpected error", exc_info=True)


@contextlib.contextmanager
def timed(action: str) -> Iterator[list[str]]:
    """Log the start and the end of an action, with its duration and its error.

    The block may append notes to the last line: an exit code, a size.
    """
    event(f"{action} ...")
    began = time.monotonic()
    notes: list[str] = []
    try:
        yield notes
    except BaseException as error:
        notes.append(f"{type(error).__name__}: {error}")
        raise
    finally:
        event(f"{action}: {', '.join(notes) or 'ok'} ({_seconds(began)})")


def _seconds(began: float) -> str:
    return f"{time.monotonic() - began:.3f} s"


def shown(text: str) -> str:
    """The first line of a command or a script, cut for the log."""
    lines = [line for line in redacted(text).splitlines() if line.strip()]
    first = lines[0].strip() if lines else ""
    cut = len(lines) > 1 or len(first) > COMMAND_COLUMNS
    return first[:COMMAND_COLUMNS] + (" [...]" if cut else "")


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | Path,
    input: str | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a command on this computer as `subprocess.run` does, in text mode, and log it.

    This and `started` start all programs here: each call says with which variables, in which
    folder and with what input; without one, stdin is empty.
    """
    stdin = {"stdin": subprocess.DEVNULL} if input is None else {"input": input}
    arguments = {**process_options(), **stdin, **options, "env": env, "cwd": cwd}
    with timed(f"here: {shown(shlex.join(argv))}") as notes:
        process = subprocess.run(argv, text=True, **arguments)
        notes.append(f"exit {process.returncode}")
    return process


@contextlib.contextmanager
def started(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str | Path, stdin: int, **options: Any
) -> Iterator[subprocess.Popen[Any]]:
    """Start a program on this computer as `subprocess.Popen` does, and log it.

    The block waits for it or terminates it; otherwise it is logged as still running.
    """
    with timed(f"here: {shown(shlex.join(argv))}") as notes:
        arguments = {**process_options(), **options, "env": env, "cwd": cwd, "stdin": stdin}
        process = subprocess.Popen(argv, **arguments)
        try:
            yield process
        finally:
            code = process.poll()
            notes.append("still running" if code is None else f"exit {code}")
