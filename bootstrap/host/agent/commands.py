"""Runs commands on a host: `run` waits for the end; a command from `start` outlives the agent."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import IO, Any

from railhead.documents.agent.commands import (
    CommandResult,
    Grown,
    Line,
    Release,
    Run,
    Start,
    Started,
)

from ..base import locks
from .channel import OUT, operations, send_event
from .logout import outlasting, wait_outside

TAIL = 40  # lines in the reply of `run`
EVENTS_PER_SECOND = 20  # if a command prints faster, only the latest lines are sent
LINE_LIMIT = 1 << 20  # bytes; of a longer line only the end is kept
# Seconds to wait for a command with the same lock: a compilation on a busy host takes this long.
LOCKED = 2 * 3600.0
GRACE = 3.0  # seconds for a command to end after SIGTERM
LINGER = 1.0  # seconds to read what remains in the pipe after the command has ended
NOEXEC = (
    "its disk is mounted noexec: make ~/.railhead a link to a folder on a disk without this option"
)
HELD: dict[int, IO[bytes]] = {}  # {pid: the standard input of a command that waits}


def run(request: Run) -> CommandResult:
    """Run a command; send its lines and, if `fetches`, the bytes that it has fetched, as events.
    After `timeout` seconds, it is killed with all processes that it started. They are also
    terminated if nobody reads the channel any more: the command on the other side has ended."""
    cache = {**os.environ, **request.env}.get("UV_CACHE_DIR", "~/.cache/uv")
    with contextlib.ExitStack() as stack:
        if request.fetches:
            # Its events show that this host works while another one with the same cache fetches.
            stack.enter_context(growth())
            stack.enter_context(one_fetch(cache))
        lock = stack.enter_context(alone(request.lock)) if request.lock else None
        process = opened(request, subprocess.PIPE, subprocess.PIPE, lock)
        threading.Thread(target=feed, args=(process, request.text), daemon=True).start()
        return Watched(process, request.timeout or threading.TIMEOUT_MAX, lock).end()


def start(request: Start) -> Started:
    """Start a command that outlives this channel and its login: in its own session, without our
    streams."""
    argv = outlasting(request.argv)
    stdin = subprocess.PIPE if request.held else subprocess.DEVNULL
    with open(os.path.expanduser(request.log), "ab") as out:
        process = opened(replace(request, argv=argv), stdin, out)
    if argv != request.argv:
        wait_outside(process.pid)
    if process.stdin:
        HELD[process.pid] = process.stdin
    # This agent is the parent while it runs: it must reap the child, because a zombie looks alive.
    threading.Thread(target=process.wait, daemon=True).start()
    return Started(process.pid)


def release(request: Release) -> None:
    """Let a held command continue."""
    with HELD.pop(request.pid) as stdin:
        stdin.write(b"\n")


@contextlib.contextmanager
def alone(path: str) -> Iterator[int]:
    """Lock a file, whose content is the latest line of the command that has the lock; yields its
    descriptor. While it waits, it sends that line: so the channel is not silent, and the wait ends
    if nobody reads it any more. TimeoutError: another command had the lock for LOCKED seconds."""
    path = os.path.expanduser(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)

    def show() -> None:
        with open(path, errors="replace") as file:
            line = file.read(LINE_LIMIT)
        send_event(Line(f"{line}; by another command" if line else "waits for another command"))

    with locks.wait_lock(path, LOCKED, waiting=show, every=1) as lock:
        yield lock


def opened(
    request: Run | Start, stdin: Any, stdout: Any, lock: int | None = None
) -> subprocess.Popen[bytes]:
    """Start a command in its own session; `~` at the start of an argument is the home. The command
    holds the `lock`. OSError: it cannot be started, also by its mount."""
    argv = [os.path.expanduser(arg) for arg in request.argv]
    try:
        return subprocess.Popen(
            argv,
            cwd=os.path.expanduser(request.cwd) if request.cwd else None,
            env={**os.environ, **{k: os.path.expanduser(v) for k, v in request.env.items()}},
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=() if lock is None else (lock,),
        )
    except PermissionError:
        if os.path.exists(argv[0]) and os.statvfs(argv[0]).f_flag & os.ST_NOEXEC:
            raise OSError(f"{argv[0]}: {NOEXEC}") from None
        raise


def feed(process: subprocess.Popen[bytes], text: str | None) -> None:
    """Write a command's standard input; the command may leave some of it unread."""
    assert process.stdin
    with contextlib.suppress(OSError), process.stdin as stdin:
        stdin.write((text or "").encode())


class Watched:
    """A running command with a time limit; its output is sent as events."""

    def __init__(self, process: subprocess.Popen[bytes], timeout: float, lock: int | None) -> None:
        assert process.stdout
        self.process = process
        self.pipe = process.stdout.fileno()
        self.until = time.monotonic() + timeout
        self.output = Output(lock)
        self.poll = select.poll()
        self.poll.register(self.pipe, select.POLLIN)
        self.poll.register(OUT.fileno(), 0)  # only whether it was closed

    def end(self) -> CommandResult:
        """Wait until the command has ended; returns exit code and last lines."""
        self.relay()
        try:
            code = self.process.wait(max(0.0, self.until - time.monotonic()))
        except subprocess.TimeoutExpired:  # the command has closed its output but continues
            self.kill()
            code = self.process.wait()
        return CommandResult(code, tuple(self.output.tail()))

    def relay(self) -> None:
        """Read until the pipe closes, or until LINGER seconds after the command's end. A background
        process of the command may keep the pipe open for ever."""
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
        """Some bytes; b"" at the end of the pipe; None if nothing is available now.
        BrokenPipeError: the channel was closed; the command was terminated."""
        ready = [descriptor for descriptor, _ in self.poll.poll(1000 / EVENTS_PER_SECOND)]
        if OUT.fileno() in ready:
            self.terminate()
            raise BrokenPipeError
        return os.read(self.pipe, 1 << 16) if ready else None

    def terminate(self) -> None:
        """Terminate the command and the processes that it started; they may remove their files."""
        self.kill(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE)
        self.kill()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Kill the command and the processes that it started: they are one process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


class Output:
    """A command's output: keeps the last lines, sends the latest one as an event at a limited rate,
    and writes it to the file of the command's lock, for commands that wait."""

    def __init__(self, lock: int | None) -> None:
        self.lock = lock
        self.show("")
        self.lines: deque[bytes] = deque(maxlen=TAIL)
        self.open = b""  # the unfinished line
        self.last_sent = ("", 0.0)

    def add(self, data: bytes) -> None:
        """Add bytes; send the latest line, limited to EVENTS_PER_SECOND."""
        *ended, rest = (self.open + data).split(b"\n")
        self.lines.extend(ended)
        self.open = rest[-LINE_LIMIT:]
        latest = shown(self.open) or (shown(self.lines[-1]) if self.lines else "")
        last_line, when = self.last_sent
        if latest != last_line and time.monotonic() - when >= 1 / EVENTS_PER_SECOND:
            self.last_sent = latest, time.monotonic()
            self.show(latest)
            send_event(Line(latest))

    def show(self, line: str) -> None:
        """Replace the line in the file of the lock."""
        if self.lock is not None:
            os.ftruncate(self.lock, 0)
            os.pwrite(self.lock, line.encode(), 0)

    def tail(self) -> list[str]:
        """The last lines."""
        rest = [self.open] if self.open else []
        return [shown(line) for line in [*self.lines, *rest]][-TAIL:]


def shown(line: bytes) -> str:
    """What a terminal finally shows of a line: the text after the last carriage return."""
    return line.rstrip().rpartition(b"\r")[2].decode(errors="replace").rstrip()


@contextlib.contextmanager
def one_fetch(cache: str) -> Iterator[None]:
    """Lock uv's cache: local hosts share it and must not download the same files twice."""
    cache = os.path.expanduser(cache)
    os.makedirs(cache, exist_ok=True)
    with locks.wait_lock(os.path.join(cache, "railhead.lock")):
        yield


@contextlib.contextmanager
def growth() -> Iterator[None]:
    """Send every second how many bytes the disk and the network have received."""
    done = threading.Event()
    thread = threading.Thread(target=report_growth, args=(done, used(), received()), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()  # an event after the result would belong to the next operation


def report_growth(done: threading.Event, start: int, received_before: int) -> None:
    """Send one event per second until `done` is set."""
    while not done.wait(1):
        send_event(Grown(max(0, used() - start), max(0, received() - received_before)))


def used() -> int:
    """Used bytes on the disk of the home directory."""
    return shutil.disk_usage(os.path.expanduser("~")).used


def received() -> int:
    """Bytes that the busiest network interface has received: a bridge counts bytes of other
    interfaces again."""
    with open("/proc/net/dev") as table:
        rows = [line.partition(":") for line in table]
    counts = [int(row.split()[0]) for name, colon, row in rows if colon and name.strip() != "lo"]
    return max(counts, default=0)


OPS = operations((Run, run), (Start, start), (Release, release))
