"""`fab` without a second of imports: a process that has imported it forks for each command.

A command has its own process, home, folder, environment and output, as one that is typed. Tests
that signal or kill a command start a real one (`Operator.start`).

    preloaded_fab.py FILE     serves the socket with this number until its other end closes
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

# What the commands import only when they run.
MODULES = (
    "fabfile",
    "bootstrap.cli.shell",
    "bootstrap.cli.status",
    "bootstrap.cli.targets",
    "bootstrap.provision.apply",
    "bootstrap.provision.horovod_wheel",
    "bootstrap.workflows.attach",
    "bootstrap.workflows.bootstrap",
    "bootstrap.workflows.plan",
    "bootstrap.workflows.teardown",
    "bootstrap.workflows.train",
)
LENGTH = 10  # digits before each request


class Server:
    """The process that has imported `fab` from one folder."""

    def __init__(self, root: Path) -> None:
        self._lock = threading.Lock()
        self._requests, other_end = socket.socketpair()
        with other_end:
            subprocess.Popen(
                [sys.executable, __file__, str(other_end.fileno())],
                cwd=root,
                env={**os.environ, "PYTHONPATH": str(root)},
                stdin=subprocess.DEVNULL,
                pass_fds=[other_end.fileno()],
                start_new_session=True,
            )

    def run(
        self, argv: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float
    ) -> tuple[int | None, str]:
        """Run a command; returns its exit code, None after so many seconds, and its output."""
        request = json.dumps([[*argv], str(folder), {**environment}]).encode()
        output, output_end = os.pipe()
        replies, replies_end = os.pipe()
        with os.fdopen(output, "rb") as printed, os.fdopen(replies) as reply:
            with self._lock:
                ends = [output_end, replies_end]
                socket.send_fds(self._requests, [b"%*d" % (LENGTH, len(request))], ends)
                self._requests.sendall(request)
            os.close(output_end)
            os.close(replies_end)
            pid = int(reply.readline())
            text, in_time = read_all(printed.fileno(), seconds)
            if not in_time:
                os.kill(pid, signal.SIGINT)
                text += read_all(printed.fileno(), 30)[0]
            return int(reply.readline()) if in_time else None, text.decode()


def read_all(file: int, seconds: float) -> tuple[bytes, bool]:
    """What comes from a pipe, and whether its end came in time."""
    end = time.monotonic() + seconds
    parts: list[bytes] = []
    with selectors.DefaultSelector() as selector:
        selector.register(file, selectors.EVENT_READ)
        while selector.select(max(0.0, end - time.monotonic())):
            part = os.read(file, 1 << 16)
            if not part:
                return b"".join(parts), True
            parts.append(part)
    return b"".join(parts), False


@cache
def server(root: Path) -> Server:
    """The server of this process for one folder."""
    return Server(root)


def serve(requests: socket.socket) -> None:
    """Fork for each request until the other end closes."""
    program = importlib.import_module("bootstrap.cli.program")
    for name in MODULES:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who answer
    stream = requests.makefile("rb", buffering=0)
    while True:
        header, files, _, _ = socket.recv_fds(requests, LENGTH, 2)
        if not header:
            return
        length, body = int(header), b""
        while len(body) < length:
            body += stream.read(length - len(body)) or b""
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            answer(body, files[0], files[1], program)
        for file in files:
            os.close(file)


def answer(request: bytes, output: int, replies: int, program: ModuleType) -> None:
    """Run one command in a child, and reply with its pid, then with its exit code."""
    argv, folder, environment = json.loads(request)
    pid = os.fork()
    if not pid:
        become(argv, folder, environment, output)
        run(program)
    os.close(output)
    os.write(replies, b"%d\n" % pid)
    _, status = os.waitpid(pid, 0)
    os.write(replies, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def become(argv: list[str], folder: str, environment: dict[str, str], output: int) -> None:
    """Be a process that was started with these."""
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.closerange(3, 1 << 16)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = argv


def run(program: Any) -> None:
    """Run the command, and end as Python does."""
    code: object = 1
    try:
        code = program.main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    sys.path.pop(0)
    with socket.socket(fileno=int(sys.argv[1])) as end_of_server:
        serve(end_of_server)
