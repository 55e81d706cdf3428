"""Runs the pulumi command, and finds the project in whose folder it runs.

It never waits at a prompt: stdin is closed, and an error names the variable to set.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from railhead.documents.codec import decode
from railhead.documents.lazy import dataclass
from railhead.installation import IS_WHEEL

from ..console import log
from ..errors import UsageError
from .files import folders_above, refuse_of_others, text_given

CLONE = None if IS_WHEEL else Path(__file__).parents[2]  # its Pulumi.yaml is for every folder
PROJECT_FILE = "Pulumi.yaml"
OLDEST = "3.259.0"  # stacks/__main__.py needs it
SECONDS = 30  # timeout of a query; a remote backend needs several seconds
END_SECONDS = 900  # for what Pulumi has begun when it is interrupted
# The refusal of a hook of stacks/place.py. Pulumi prints it twice: first on one line, then as a
# whole.
REFUSAL = re.compile(r'before hook "cluster-\w+" failed: ([^\n]+)\n +next: ([^\n]+)')
LOGGED_OUT = "you are not logged in to a backend of Pulumi, which keeps the state of stacks"
LOG_IN = "pulumi login --local   # or where the state is: pulumi login ADDRESS"
INSTALL = "https://www.pulumi.com/docs/install/   # then: pulumi login --local"


def project() -> Path | None:
    """The folder of the Pulumi project with the stacks: the working directory or a folder above
    it, otherwise the clone. None if there is none; other Pulumi projects do not count, nor do
    fetched results.

    Raises:
        UsageError: another user has written the project's file, or can.
    """
    places = [*folders_above(Path.cwd()), *([CLONE] if CLONE else [])]
    chosen = next((place for place in places if _is_railhead(place / PROJECT_FILE)), None)
    if chosen and chosen != CLONE:
        refuse_of_others(chosen / PROJECT_FILE)
    return chosen


def _is_railhead(file: Path) -> bool:
    try:
        lines = text_given(file, str(file), 1 << 20).split("\n") if file.is_file() else []
        return "name: railhead" in lines
    except UsageError:
        return False


@dataclass(frozen=True)
class Streamed:
    """How a Pulumi command ended, what it printed, and whether it was interrupted by the user."""

    code: int
    text: str
    interrupted: bool = False


def is_locked(text: str) -> bool:
    """Whether Pulumi refused because another command of the stack runs, or was killed."""
    return "the stack is currently locked" in text or "Another update is currently in" in text


def refusal(text: str) -> UsageError | None:
    """The program's own refusal in Pulumi's output, with its next command; None if there is
    none. It comes before any change."""
    match = REFUSAL.search(text)
    return UsageError(match[1], hint=match[2]) if match else None


@dataclass(frozen=True)
class Credentials:
    """The part of Pulumi's file of credentials that is read here: the address of the backend."""

    current: str = ""


def backend() -> str | None:
    """The address of the backend that Pulumi uses; None if it has none. It is read without the
    pulumi command, which takes a second."""
    if address := os.environ.get("PULUMI_BACKEND_URL"):
        return address
    folder = os.environ.get("PULUMI_HOME")
    path = (Path(folder) if folder else Path.home() / ".pulumi") / "credentials.json"
    try:
        return decode(Credentials, json.loads(path.read_text())).current or None
    except (OSError, ValueError):
        return None


@dataclass(frozen=True)
class Login:
    """Who is logged in to which backend."""

    user: str
    url: str = ""


def version() -> str:
    """The version of the pulumi command; empty if it is unknown."""
    return run("version").stdout.strip()


def login() -> Login:
    """Who is logged in.

    Raises:
        UsageError: nobody is logged in, or the backend does not answer.
    """
    process = run("whoami", "--json")
    if process.returncode:
        reason = (process.stderr.strip().splitlines() or [""])[-1].removeprefix("error: ")
        if reason and "PULUMI_ACCESS_TOKEN" not in reason:
            raise UsageError(f"the Pulumi backend does not answer: {reason}", hint="pulumi whoami")
        raise UsageError(LOGGED_OUT, hint=LOG_IN)
    subject = "the answer of pulumi whoami"
    return decode(Login, json.loads(process.stdout), what=subject, error=UsageError)


def stream(argv: Sequence[str], seconds: float) -> Streamed:
    """Run pulumi; each line is printed as it comes. An interrupt reaches Pulumi too, which ends
    what it has begun: this waits for it. After `seconds` Pulumi is terminated."""
    _refuse_without_pulumi()
    command = ["pulumi", *argv, "--non-interactive"]
    with log.started(
        command, cwd=project() or "/", env=_environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    ) as process:  # fmt: skip
        bound = threading.Timer(seconds, _end, [process])
        bound.start()
        lines: list[str] = []
        try:
            interrupted = _print_until_end(process, lines)
        finally:
            bound.cancel()
    return Streamed(process.returncode, "".join(lines), interrupted)


def _end(process: subprocess.Popen[str]) -> None:
    """Interrupt Pulumi, which then ends what it has begun; the second time it ends at once."""
    for sign in (signal.SIGINT, signal.SIGINT, signal.SIGKILL):
        process.send_signal(sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
            return


def _print_until_end(process: subprocess.Popen[str], lines: list[str]) -> bool:
    """Print the lines of a process until it ends, and add them to `lines`. The first interrupt
    does not end the wait; returns whether there was one."""
    assert process.stdout
    interrupted = False
    while True:
        try:
            for line in process.stdout:
                lines.append(line)
                print(line, end="", flush=True)
            process.wait()
            return interrupted
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True


def run(*args: str, seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    _refuse_without_pulumi()
    argv = ["pulumi", *args, "--non-interactive"]
    seconds = SECONDS if seconds is None else seconds
    try:
        return log.run(
            argv, cwd=project() or "/", env=_environment(), capture_output=True, timeout=seconds,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"pulumi does not answer within {seconds:.0f} s: {shlex.join(argv)}",
            hint="pulumi whoami   # or name the hosts by --hosts",
        ) from None


def _refuse_without_pulumi() -> None:
    if not shutil.which("pulumi"):
        raise UsageError("there is no pulumi on PATH", hint=INSTALL)


def _environment() -> dict[str, str]:
    """The environment for pulumi. It lacks the user's setting for previews as a stream of events:
    with it, `preview --json` prints several documents instead of one."""
    options = {"PULUMI_SKIP_UPDATE_CHECK": "true", "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "false"}
    return os.environ | options | {"NO_COLOR": "1"}
