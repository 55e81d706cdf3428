"""Runs commands on a host: `run` waits for the end, `start` lets it outlive the channel."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from bootstrap.remote.agent.channel import send_message

TAIL = 40  # lines that `run` answers
EVENTS_PER_SECOND = 20  # a command that prints faster has only its latest lines sent
LINE_LIMIT = 1 << 20  # bytes; of a longer line the end is kept
LINGER = 1.0  # seconds for what is still in the pipe once the command has ended


def run(
    argv: list[str],
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    text: str | None = None,
    timeout: float | None = None,
    fetches: bool = False,
) -> dict[str, Any]:
    """Run a command; its lines are events, and the disk's growth in bytes where it fetches.

    After `timeout` seconds it is killed with all that it started.
    """
    with one_fetch() if fetches else contextlib.nullcontext(), growth(fetches):
        process = opened(argv, env or {}, cwd, subprocess.PIPE, subprocess.PIPE)
        threading.Thread(target=feed, args=(process, text), daemon=True).start()
        return Watched(process, timeout or threading.TIMEOUT_MAX).end()


def start(argv: list[str], cwd: str, env: Mapping[str, str], log: str) -> dict[str, Any]:
    """Start a command that outlives this channel: its own session, no tie to our streams."""
    with open(os.path.expanduser(log), "ab") as out:
        process = opened(argv, env, cwd, subprocess.DEVNULL, out)
    # While this agent lives it is the parent: a dead child must not look alive as a zombie.
    threading.Thread(target=process.wait, daemon=True).start()
    return {"pid": process.pid}


def opened(
    argv: list[str], env: Mapping[str, str], cwd: str | None, stdin: Any, stdout: Any
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own; `~` at a word's start is the home."""
    return subprocess.Popen(
        [os.path.expanduser(word) for word in argv],
        cwd=os.path.expanduser(cwd) if cwd else None,
        env={**os.environ, **{k: os.path.expanduser(v) for k, v in env.items()}},
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def feed(process: subprocess.Popen[bytes], text: str | None) -> None:
    """Write a command's standard input; one that does not read it to the end is fine."""
    assert process.stdin
    with contextlib.suppress(OSError), process.stdin as stdin:
        stdin.write((text or "").encode())


class Watched:
    """A running command: it has a time limit, and its output is sent as events."""

    def __init__(self, process: subprocess.Popen[bytes], timeout: float) -> None:
        assert process.stdout
        self.process = process
        self.pipe = process.stdout.fileno()
        self.until = time.monotonic() + timeout
        self.output = Output()

    def end(self) -> dict[str, Any]:
        """The exit code and the last lines, once it has ended."""
        self.relay()
        try:
            code = self.process.wait(max(0.0, self.until - time.monotonic()))
        except subprocess.TimeoutExpired:  # it had closed its output and went on
            self.kill()
            code = self.process.wait()
        return {"rc": code, "tail": self.output.tail()}

    def relay(self) -> None:
        """Read until the pipe ends, or shortly after the command did.

        What it left in the background may hold the pipe for ever, silent or not.
        """
        last: float | None = None
        while (data := self.read_available()) != b"":
            self.output.add(data or b"")
            now = time.monotonic()
            if last is None and now > self.until:
                self.kill()
            if self.process.poll() is not None:
                last = last or now + LINGER
                if data is None or now > last:
                    return

    def read_available(self) -> bytes | None:
        """Some bytes; none at the pipe's end; None when nothing comes for a moment."""
        ready, _, _ = select.select([self.pipe], [], [], 1 / EVENTS_PER_SECOND)
        return os.read(self.pipe, 1 << 16) if ready else None

    def kill(self) -> None:
        """End the command and what it started: they are one session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


class Output:
    """A command's output: keeps the last lines, sends the latest as events at a limited rate."""

    def __init__(self) -> None:
        self.lines: deque[bytes] = deque(maxlen=TAIL)
        self.open = b""  # a line that has not ended yet
        self.last_sent = ("", 0.0)

    def add(self, data: bytes) -> None:
        """Add bytes; send the latest line unless one was sent a moment ago."""
        *ended, rest = (self.open + data).split(b"\n")
        self.lines.extend(ended)
        self.open = rest[-LINE_LIMIT:]
        latest = shown(self.open) or (shown(self.lines[-1]) if self.lines else "")
        last_line, when = self.last_sent
        if latest != last_line and time.monotonic() - when >= 1 / EVENTS_PER_SECOND:
            self.last_sent = latest, time.monotonic()
            send_message(event={"line": latest})

    def tail(self) -> list[str]:
        """The last lines."""
        rest = [self.open] if self.open else []
        return [shown(line) for line in [*self.lines, *rest]][-TAIL:]


def shown(line: bytes) -> str:
    """What a terminal shows of a line in the end: a carriage return starts it anew."""
    return line.rstrip().rpartition(b"\r")[2].decode(errors="replace").rstrip()


@contextlib.contextmanager
def one_fetch() -> Iterator[None]:
    """One at a time per cache: local hosts share it and must not download the same thing twice."""
    cache = os.path.expanduser(os.environ.get("UV_CACHE_DIR", "~/.cache/uv"))
    os.makedirs(cache, exist_ok=True)
    with open(os.path.join(cache, "railhead.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def growth(watching: bool) -> Iterator[None]:
    """Send every second by how many bytes disk use has grown."""
    done = threading.Event()
    if watching:
        threading.Thread(target=report_growth, args=(done, used()), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def report_growth(done: threading.Event, start: int) -> None:
    """Until `done`, one event a second."""
    while not done.wait(1):
        send_message(event={"grown": max(0, used() - start)})


def used() -> int:
    """Bytes in use on the disk that holds the home."""
    return shutil.disk_usage(os.path.expanduser("~")).used
