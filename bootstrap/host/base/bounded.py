"""Runs a command with a time limit, without waiting for a process that cannot be killed. A command
that cannot be started is one that fails.

`subprocess.run` waits without a limit for a command that it has killed; a command that reads from a
dead network mount may never end.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from railhead.documents.lazy import dataclass
from railhead.documents.runs.run import AfterRun, RunDocument

from . import programs
from .children import end_with_parent, unmarked

GRACE = 5.0  # seconds for a killed command to end
NOT_STARTED = 127  # as the exit code, like that of a shell
LONGEST = 600  # characters of a reason


@dataclass(frozen=True)
class Ended:
    """The exit code of a command (None if it was killed after `seconds`) and its output."""

    code: int | None
    out: str
    err: str
    seconds: float = 0.0

    @property
    def why(self) -> str:
        """Why the command failed: the last line of its errors, if there is one; "" if it did
        not."""
        if self.code is None:
            return f"not finished within {round(self.seconds, 1):g} s"
        last = [f"exit code {self.code}", *self.err.strip().splitlines()][-1]
        return last[-LONGEST:] if self.code else ""


def run(argv: Sequence[str], seconds: float, stdin: str = "") -> Ended:
    """Run a command with this input, without MARKS; the kernel kills it when this process dies."""
    return _run(argv, seconds, stdin, end_with_parent)


def run_also_after_us(argv: Sequence[str], seconds: float) -> Ended:
    """As `run`, but the command continues when this process dies: it may be what kills us."""
    return _run(argv, seconds, "", None)


def _run(
    argv: Sequence[str], seconds: float, stdin: str, in_child: Callable[[], None] | None
) -> Ended:
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    try:
        process = subprocess.Popen(argv, env=unmarked(), preexec_fn=in_child, **pipes)
    except OSError as error:
        return Ended(NOT_STARTED, "", str(error))
    try:
        out, err = process.communicate(stdin.encode(), timeout=seconds)
        return Ended(process.returncode, text(out), text(err))
    except subprocess.TimeoutExpired:
        with contextlib.suppress(PermissionError):  # the command runs as another user, such as root
            process.kill()
    try:
        out, err = process.communicate(timeout=GRACE)
    except subprocess.TimeoutExpired as late:
        out, err = late.output, late.stderr
    return Ended(None, text(out), text(err), seconds)


def command_with_client(
    run: AfterRun | RunDocument, folder: str, program: str, *args: str
) -> list[str]:
    """The command of a program that uses the environment of the run's bucket client. Its arguments
    are the run's folder here and in the bucket, and `args`."""
    assert run.bucket
    python = os.path.expanduser(f"~/.railhead/envs/{run.bucket.client}/bin/python")
    return [python, "-I", programs.ARCHIVE, program, folder, run.bucket.place_of(run.run_id), *args]


def start_beside(command: list[str], log: str) -> subprocess.Popen[bytes]:
    """Start a program in its own session, without MARKS; it ends with this process. OSError: it
    cannot be started."""
    with open(log, "ab") as output:
        return subprocess.Popen(
            command,
            env=unmarked(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )


def text(data: bytes | None) -> str:
    """Decode output; None is empty."""
    return (data or b"").decode(errors="replace")
