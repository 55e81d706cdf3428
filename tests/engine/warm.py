"""Forks for Python programs: their packages (Pulumi's take seconds of CPU) are imported once.

The engine starts a language host, a program and dynamic providers for each command, and tests type
`fab`. Each of these is a fork of this server, which bin/warm requests: with its own folder,
environment, arguments and output, and the modules of the project imported anew. The server learns
from each program which packages to import for the next one.

It starts no thread, opens no connection but its own socket, and ends with its standard input.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGES = sysconfig.get_paths()["purelib"]
FIRST = [  # what a language host imports
    "asyncio",
    "concurrent.futures.thread",
    "grpc",
    "importlib.metadata",
    "pulumi",
    "pulumi.runtime.proto.language_pb2_grpc",
    "shutil",
    "subprocess",
]
LAZY = ("pulumi_aws", "pulumi_gcp")
LIBC = ctypes.CDLL(None)
SIGNAL_OF_PARENTS_DEATH = 1  # of prctl: no fork outlives the server, however that terminates
Request = dict[str, Any]  # argv, folder, environment
LEARNED = "learned"  # a folder beside the socket: what each program imported


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Path]:
    """A server's socket in `folder`, until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / "warm"
    (folder / LEARNED).mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # its handlers are for forks of a running gRPC
    argv = [sys.executable, __file__, str(place)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, env=environment, text=True, **pipes) as server:
        assert server.stdin and server.stdout
        assert server.stdout.readline() == "ready\n"
        try:
            yield place
        finally:
            server.stdin.close()


@dataclass(frozen=True)
class Program:
    """A fork, its process (readable once it has terminated), and the client that waits for it."""

    pid: int
    process: int
    client: socket.socket

    def kill(self) -> None:
        """With what it started: a language host has a program."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


class Forks:
    """The server."""

    def __init__(self, place: Path) -> None:
        self.learned = place.with_name(LEARNED)
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(place))
        self.listener.listen(64)
        self.running: dict[int, Program] = {}  # by the file descriptor of each process

    def serve(self) -> Request | None:
        """Fork until standard input ends: None. In a fork: the request that it is for."""
        self.selector.register(0, selectors.EVENT_READ)
        self.selector.register(self.listener, selectors.EVENT_READ)
        print("ready", flush=True)
        while True:
            for key, _ in self.selector.select():
                program: Program | None = key.data
                if program:
                    self._look_at(program, key.fd)
                elif key.fd == 0:
                    self._kill_all()
                    return None
                elif request := self._accept():
                    return request

    def _look_at(self, program: Program, readable: int) -> None:
        if self.running.get(program.process) is not program:
            return  # it has terminated meanwhile
        if readable == program.process:
            self._reap(program)
        else:  # the client is gone
            program.kill()
            self.selector.unregister(program.client)

    def _accept(self) -> Request | None:
        client, _ = self.listener.accept()
        head, streams, _, _ = socket.recv_fds(client, 4, 3)
        size, text = int.from_bytes(head, "big"), b""
        while len(text) < size and (part := client.recv(1 << 20)):
            text += part
        if size and len(text) == size:
            self._learn()
            if request := self._fork(client, streams, text):
                return request
        else:  # it was killed before it had sent everything
            client.close()
        for stream in streams:
            os.close(stream)
        return None

    def _fork(self, client: socket.socket, streams: list[int], text: bytes) -> Request | None:
        gc.freeze()
        pid = os.fork()
        if not pid:
            os.setpgid(0, 0)
            LIBC.prctl(SIGNAL_OF_PARENTS_DEATH, signal.SIGKILL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            self._close(client, *streams)
            request: Request = json.loads(text)
            return request
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)
        program = Program(pid, os.pidfd_open(pid), client)
        self.running[program.process] = program
        self.selector.register(program.process, selectors.EVENT_READ, program)
        self.selector.register(client, selectors.EVENT_READ, program)
        return None

    def _close(self, client: socket.socket, *streams: int) -> None:
        """In a fork: close what is the server's, or nobody would see that it has terminated."""
        for program in self.running.values():
            os.close(program.process)
            program.client.close()
        for stream in streams:
            os.close(stream)
        client.close()
        self.listener.close()
        self.selector.close()

    def _reap(self, program: Program) -> None:
        """Tell the client how it terminated."""
        del self.running[program.process]
        code = os.waitstatus_to_exitcode(os.waitpid(program.pid, 0)[1])
        self.selector.unregister(program.process)
        os.close(program.process)
        with contextlib.suppress(KeyError):
            self.selector.unregister(program.client)
        with contextlib.suppress(OSError):
            program.client.send(str(code if code >= 0 else 128 - code).encode())
        program.client.close()

    def _learn(self) -> None:
        """Import the packages that programs imported since."""
        for path in self.learned.glob("*.json"):
            for name in json.loads(path.read_text()):
                with contextlib.suppress(Exception):
                    _import(name)
            path.unlink()
        assert len(os.listdir("/proc/self/task")) == 1, "a package starts a thread"  # noqa: PTH208

    def _kill_all(self) -> None:
        for program in self.running.values():
            program.kill()


def _import(name: str) -> None:
    """As a program does. Pulumi's packages for clouds are lazy: the first name that is read from
    one loads it with all its modules. A module of it imported before would hide the function of the
    same name."""
    root, *inner = name.split(".")
    if root not in LAZY:
        importlib.import_module(name)
    elif len(inner) == 1:
        getattr(importlib.import_module(name), "any_name", None)


def run(request: Request, learned: Path) -> None:
    """Be the program that the request names, as Python itself would start it."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    paths = [path for path in request["environment"].get("PYTHONPATH", "").split(":") if path]
    program, *args = request["argv"]
    first = os.getcwd() if program == "-m" else str(Path(program).parent)  # noqa: PTH109
    sys.path[:] = [first, *paths, *sys.path]
    importlib.invalidate_caches()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115, PTH123
    # As `python -u`: a dynamic provider writes its port and does not flush it.
    out, err = (io.FileIO(number, "w", closefd=False) for number in (1, 2))
    sys.stdout = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(err, encoding="utf-8", write_through=True)
    before = set(sys.modules)
    atexit.register(_report, before, learned / f"{os.getpid()}.json")
    if program == "-m":
        sys.argv = ["-m", *args[1:]]
        runpy.run_module(args[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [program, *args]
        runpy.run_path(program, run_name="__main__")


def _report(before: set[str], path: Path) -> None:
    """Leave the names of the packages' modules that this program imported."""
    new = [name for name in sys.modules if name not in before]
    ours = [name for name in new if _is_of_a_package(sys.modules[name])]
    if ours:
        part = path.with_suffix(".part")
        part.write_text(json.dumps(ours))
        part.rename(path)


def _is_of_a_package(module: ModuleType) -> bool:
    """Whether it was loaded from an installed package. To ask a lazy module would load it."""
    if type(module).__name__ == "_LazyModule":
        return False
    return str(getattr(module, "__file__", None) or "").startswith(PACKAGES)


def main(place: str) -> None:
    """Serve at this socket; a fork goes on as its program."""
    base = [path for path in sys.path if path != str(Path(__file__).parent)]
    sys.path[:] = base
    for name in FIRST:
        importlib.import_module(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest, which then closes stdin
    forks = Forks(Path(place))
    if request := forks.serve():
        run(request, forks.learned)


if __name__ == "__main__":
    main(sys.argv[1])
