"""A process with the framework imported; the next attempt's ranks on this host are forks of it.

rank.spare FOLDER HOST PACKAGE...   -> one line: how much memory it keeps, or why it has ended

The helper of the first rank of a host starts it after the first steps (spare_start.py). It runs no
operation of the framework: the first one would start threads and open devices. The next attempt's
processes ask it for a rank (stand_in.py). For each of them it forks a process, which forks the rank
and waits for it; both outlive the spare. If the spare does not suit a rank, the rank starts as
usual.

It ends when the run has no process here for KEPT seconds, or little memory is left.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import select
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from railhead.documents.codec import decode, encode
from railhead.documents.lazy import dataclass
from railhead.documents.runs.run import RunDocument

from ..base import children, free_memory, json_file, process_text, programs
from ..run.end_processes import SPARE
from . import rank as ranks
from . import rank_launcher, stand_in
from .quick_import import read_by_imports

NAME = process_text.name()  # the process name of a fork
KEPT = 30.0  # seconds without a rank of the run
LOOK = 2.0  # seconds between two checks of the memory
LEAST = 512 << 20  # bytes that must stay free for others
NICE = 10  # of the importing thread only: a process could not raise its own priority again
THREAD = 5.0  # seconds for threads whose work is done to end
OF_PLACES = ("hosts", "roles", "tf_cluster", "coordinator")  # of the document of a run
DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri")


@dataclass(frozen=True)
class Request:
    """What the process that mpirun has started gives to the rank that takes its place."""

    env: Mapping[str, str]
    cwd: str
    mask: int
    parent: int
    streams: tuple[int, ...]


def main(folder: str, host: str, *packages: str) -> int:
    """Import the packages, then wait; in a fork that becomes a rank, returns the rank's exit
    code."""
    children.set_name(SPARE.encode())
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(f"\0{stand_in.socket_name(run_of(folder), int(host))}")
        except OSError:  # another spare has it
            return 0
        output = os.dup(1)
        os.dup2(0, 1)  # drops the output of imports
        spare = Spare(folder)
        why = spare.load(packages) or unsafe()
        kibibytes = free_memory.number("/proc/self/status", "RssAnon:")  # only of this process
        os.write(output, f"{why or f'{kibibytes >> 10} MB'}\n".encode())
        if why:
            return 0
        listener.listen(128)
        request = served(listener, output, spare.refusal)
        os.close(output)
    if request is None:
        return 0
    become(request)
    for variable, value in spare.added.items():
        os.environ.setdefault(variable, value)
    return ranks.be_rank(spare.run, folder, request.parent, spare.imports)


def run_of(folder: str) -> RunDocument:
    """The document of the run."""
    return json_file.read(os.path.join(folder, "run.json"), RunDocument)


class Spare:
    """The imports of the spare, and the ranks for which they are right."""

    def __init__(self, folder: str) -> None:
        self.folder, self.run = folder, run_of(folder)
        os.environ.pop(process_text.ROOM, None)
        self.environment = read_by_imports(os.environ)
        self.imports = ranks.Imports(self.run)
        self.added: dict[str, str] = {}  # variables that the imports have set

    def load(self, packages: Sequence[str]) -> str:
        """Import these packages as a rank does, at a low priority; why it failed, or ""."""
        os.environ.update({**self.run.env, **rank_launcher.variables(self.run, 0)})
        ranks.set_for_imports(self.run)
        self.imports.watch()
        failed, before = list[str](), dict(os.environ)

        def load() -> None:
            os.setpriority(os.PRIO_PROCESS, 0, NICE)
            try:
                for package in packages:
                    importlib.import_module(package)
            except BaseException as error:
                failed.append(f"{type(error).__name__}: {error}".splitlines()[0])

        with _without_archive():
            thread = threading.Thread(target=load)
            thread.start()
            thread.join()
        self.added = {k: v for k, v in os.environ.items() if before.get(k) != v}
        return "".join(failed)

    def refusal(self, request: Request) -> str:
        """Why this process cannot become the rank; "" if it can."""
        run = run_of(self.folder)
        if _imported_by(run) != _imported_by(self.run):
            return "another program"
        if read_by_imports(request.env) != self.environment:
            return "other variables"
        self.run = run
        return "modules of the program" if self._has_own_modules() else ""

    def _has_own_modules(self) -> bool:
        """Whether a module of the program has the name of an imported one. Our own modules do not
        count: they are removed before the program starts."""
        folder = ranks.first_path(self.run.program, os.path.join(self.folder, "work"))
        names = {entry.name.partition(".")[0] for entry in os.scandir(folder)}
        others = (name for name, module in sys.modules.items() if not programs.is_ours(module))
        imported = {name.partition(".")[0] for name in others} - {"__main__"}
        return not names.isdisjoint(imported)


def _imported_by(run: RunDocument) -> dict[str, Any]:
    """The keys of a run document that decide what is imported, and how imports are changed."""
    document = {key: value for key, value in encode(run).items() if key not in OF_PLACES}
    return {**document, "size": min(run.size, 2)}  # a single rank joins no others


@contextlib.contextmanager
def _without_archive() -> Iterator[None]:
    """Within the block, imports find neither our own modules nor those of the program."""
    before = sys.path[:]
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != programs.ARCHIVE]
    try:
        yield
    finally:
        sys.path[:] = before


def unsafe() -> str:
    """Why this process must not fork a rank; "" if it may. A fork has only the forking thread;
    libraries that know this, such as OpenBLAS, end their threads before."""
    if child := os.fork():
        os.waitpid(child, 0)
    else:
        os._exit(0)
    until = time.monotonic() + THREAD
    while len(os.listdir("/proc/self/task")) > 1:
        if time.monotonic() > until:
            return "its libraries have threads"
        time.sleep(0.01)
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{number}").startswith(DEVICES):
                return "its libraries use a GPU"
    return ""


def served(
    listener: socket.socket, output: int, refusal: Callable[[Request], str]
) -> Request | None:
    """Answer requests until it is time to end; in a fork that becomes a rank, returns its
    request."""
    events = select.poll()
    events.register(listener, select.POLLIN)
    events.register(output, 0)  # an event: its reader, the helper that started the spare, has ended
    helped, alone_since = True, time.monotonic()
    while True:
        for number, _ in events.poll(LOOK * 1000):
            if number == output:
                events.unregister(output)
                helped = False
            elif request := answered(listener, refusal):
                return request
        if helped or has_children():
            alone_since = time.monotonic()
        if time.monotonic() - alone_since > KEPT or free_memory.available() < LEAST:
            return None


def has_children() -> bool:
    """Whether forks of this process still run; reaps those that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False


def answered(listener: socket.socket, refusal: Callable[[Request], str]) -> Request | None:
    """Fork a process for the next request. That process does not return; its own fork, which
    becomes the rank, returns the request."""
    spare = os.getpid()
    with listener.accept()[0] as asking:
        if os.fork():
            return None
        try:
            listener.close()
            children.set_name(NAME)
            return _rank_for(asking, refusal, spare)
        except (OSError, ValueError, LookupError):
            os._exit(1)


def _rank_for(asking: socket.socket, refusal: Callable[[Request], str], spare: int) -> Request:
    """Fork the rank, and wait for it."""
    asking.settimeout(stand_in.ANSWER)
    if not stand_in.is_ours(asking):
        os._exit(1)
    request = received(asking)
    if refusal(request):
        if os.getppid() == spare:
            os.kill(spare, signal.SIGTERM)  # the other ranks would be refused, too
        os._exit(0)
    gate, opened = os.pipe()
    rank = os.fork()
    if rank == 0:
        os.close(opened)
        asking.close()
        os.setpgid(0, 0)
        if os.read(gate, 1) != stand_in.GO:
            os._exit(0)
        os.close(gate)
        return request
    with contextlib.suppress(OSError):
        os.setpgid(rank, rank)
    for number in request.streams:
        os.close(number)
    asking.sendall(b"%d" % rank)
    if asking.recv(1) != stand_in.GO:
        os._exit(0)
    os.write(opened, stand_in.GO)
    _, status = os.waitpid(rank, 0)
    asking.sendall(b"%d" % status)
    os._exit(0)


def received(asking: socket.socket) -> Request:
    """The request of a process. OSError, ValueError, LookupError: it is not complete, or does not
    come in time."""
    data, streams, _, _ = socket.recv_fds(asking, 1 << 16, len(stand_in.STREAMS))
    while not data.endswith(b"\n"):
        more = asking.recv(1 << 16)
        if not more:
            raise ValueError("the request is not complete")
        data += more
    if len(streams) != len(stand_in.STREAMS):
        raise ValueError("the streams are not complete")
    return decode(Request, {**json.loads(data), "streams": streams})


def become(request: Request) -> None:
    """Take over the streams, the variables and the folder of the requesting process; seed random
    numbers anew, as in a separate process."""
    for number, stream in zip(stand_in.STREAMS, request.streams, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request.cwd)
    os.umask(request.mask)
    os.environ.clear()
    os.environ.update(request.env)
    process_text.show_command(programs.SPARE, programs.RANK)
    marks = [name for name in request.env if name.startswith("OMPI_COMM_WORLD_")]
    process_text.show_variables({name: request.env[name] for name in marks})
    tempfile.tempdir = None
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
