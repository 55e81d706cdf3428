"""The process of which Python programs are forks: it has imported their modules, which takes
seconds of CPU (tests/standins/forks.py).

    fork_server.py LISTENER [FOLDER ...]    serves the socket with this number until stdin ends

It learns from each program which modules to import before the next one, where they lie in
installed packages or in one of the folders; without a folder it learns nothing from them. It starts
no thread and opens no connection.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import itertools
import json
import os
import resource
import runpy
import select
import shutil
import signal
import socket
import sys
import sysconfig
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

LAZY = ("pulumi_aws", "pulumi_gcp")
LIBC = ctypes.CDLL(None)
SIGNAL_OF_PARENTS_DEATH = 1  # of prctl: no fork outlives the server, however that terminates
Message = dict[str, Any]  # what `forked` sends, or {"learned": names of modules}


def serve(listener: socket.socket, folders: Sequence[str]) -> None:
    """Fork for each request until stdin ends."""
    gc.set_threshold(100_000, 50, 100)  # of its programs too: they are short
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest, which then closes stdin
    signal.signal(signal.SIGCHLD, lambda *_: reap())
    address = listener.getsockname()
    while True:
        if 0 in readable(0, listener):
            return
        client, _ = listener.accept()
        message, streams = receive(client)
        learn(message.get("learned", ()))
        if "argv" in message:
            learn_first(message["argv"], message["environment"])
            gc.freeze()
            if not os.fork():
                listener.close()
                watch(client, message, streams, (address, folders))
        client.close()
        for stream in streams:
            os.close(stream)


def learn_first(argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """Import what a program imports at first, before the first one does: the command line of `fab`,
    or what describes the cloud of a stack."""
    if Path(argv[0]).name.startswith("fab"):
        learn(["bootstrap.cli.program"])
    cloud = json.loads(environment.get("PULUMI_CONFIG") or "{}").get("railhead:cloud")
    if cloud not in ("aws", "gcp") or f"stacks.{cloud}.cluster" in sys.modules:
        return
    learn([f"stacks.{cloud}.cluster"])
    ours = [module for name, module in sys.modules.items() if name.startswith("stacks.")]
    imported = {id(value): value for module in ours for value in vars(module).values()}
    for value in imported.values():
        if isinstance(value, ModuleType) and is_lazy(value):
            getattr(value, "any_name", None)


def readable(*files: Any) -> list[Any]:
    """Those that can be read, once there are some; a process can when it has ended."""
    return select.select(files, [], [])[0]


def reap() -> None:
    """Their CPU time counts for this process from now on."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def receive(client: socket.socket) -> tuple[Message, list[int]]:
    """A message and the files that come with it; empty where the client was killed before its
    end."""
    head, streams, _, _ = socket.recv_fds(client, 4, 3)
    size, text = int.from_bytes(head, "big"), b""
    while len(text) < size and (piece := client.recv(1 << 20)):
        text += piece
    message: Message = json.loads(text) if text and len(text) == size else {}
    return message, streams


def learn(names: Sequence[str]) -> None:
    """Import what a program imported."""
    for name in names:
        with contextlib.suppress(Exception):
            import_as_a_program(name)
    if "pulumi.log" in sys.modules:  # each debug message is a call of the engine, which shows none
        sys.modules["pulumi.log"].debug = lambda *_, **__: None  # type: ignore[attr-defined]
    if resource := sys.modules.get("pulumi.runtime.resource"):  # nor does it show these
        from pulumi.runtime.proto import source_pb2

        resource._get_stack_trace = source_pb2.StackTrace  # type: ignore[attr-defined]
    assert len(os.listdir("/proc/self/task")) == 1, "a module starts a thread"  # noqa: PTH208


def import_as_a_program(name: str) -> None:
    """Pulumi's packages for clouds are lazy: the first name that is read from one loads it with all
    its modules. A module of it imported before would hide the function of the same name."""
    root, *inner = name.split(".")
    if root not in LAZY:
        importlib.import_module(name)
    elif len(inner) == 1:
        getattr(importlib.import_module(name), "any_name", None)


def watch(client: socket.socket, message: Message, streams: list[int], server: Any) -> NoReturn:
    """Run the program in a child, and send its exit code; kill it where the client is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    LIBC.prctl(SIGNAL_OF_PARENTS_DEATH, signal.SIGKILL)
    pid = os.fork()
    if not pid:
        client.close()
        become(message, streams)
        run(message["argv"], *server)
    for stream in streams:
        os.close(stream)
    with contextlib.suppress(PermissionError, ProcessLookupError):
        os.setpgid(pid, pid)  # whichever of the two is first
    if client in readable(
        os.pidfd_open(pid), client
    ):  # with what it started: a language host has a program
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(OSError):
        client.send(str(code if code >= 0 else 128 - code).encode())
    os._exit(0)


def become(message: Message, streams: Sequence[int]) -> None:
    """Be a process that was started where `forked` was."""
    os.setpgid(0, 0)
    LIBC.prctl(SIGNAL_OF_PARENTS_DEATH, signal.SIGKILL)
    if not message.get("ignores_interrupt"):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if "umask" in message:
        os.umask(message["umask"])
    if "file_size" in message:
        resource.setrlimit(resource.RLIMIT_FSIZE, (message["file_size"],) * 2)
    os.chdir(message["folder"])
    os.environ.clear()
    os.environ.update(message["environment"])


def run(argv: Sequence[str], address: str, folders: Sequence[str]) -> NoReturn:
    """Run the program as Python itself would; the server learns what it imported."""
    program, *args = argv
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(":") if path]
    first = os.getcwd() if program == "-m" else str(Path(program).parent)  # noqa: PTH109
    sys.path[:] = [first, *paths, *sys.path]
    importlib.invalidate_caches()
    if Path(program).name == "pulumi-language-python-exec":  # a stack asks `bootstrap` by processes
        sys.executable = str(Path(__file__).with_name("forked"))
    if args[:1] == ["bootstrap.clouds.prices"]:  # no stand-in has prices: an outage is over at once
        repeats = importlib.import_module("bootstrap.host.buckets.repeats")
        repeats.now = itertools.count(step=60).__next__  # type: ignore[attr-defined]
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115, PTH123
    # As `python -u`: a dynamic provider writes its port and does not flush it.
    out, err = (io.FileIO(number, "w", closefd=False) for number in (1, 2))
    sys.stdout = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(err, "utf-8", "backslashreplace", write_through=True)
    before, code = set(sys.modules), exit_code(program, args)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    names = [name for name in sys.modules if name not in before]
    if learned := [name for name in names if lies_in(sys.modules[name], folders)]:
        text = json.dumps({"learned": learned}).encode()
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as server:
            server.connect(address)
            server.sendall(len(text).to_bytes(4, "big") + text)
    os._exit(code)


def exit_code(program: str, args: Sequence[str]) -> int:
    """Run it, and print what ends it as Python does."""
    try:
        if program == "-m":
            sys.argv = ["-m", *args[1:]]
            runpy.run_module(args[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [program, *args]
            runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code if isinstance(end.code, int) else 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def is_lazy(module: ModuleType) -> bool:
    """Whether it is one of Pulumi's that is loaded when a name is read from it."""
    return type(module).__name__ == "_LazyModule"


def lies_in(module: ModuleType, folders: Sequence[str]) -> bool:
    """Whether it was loaded from one of these, through links too. To ask a lazy module would load
    it; a `__main__` is a program."""
    if is_lazy(module):
        return False
    file = os.path.realpath(getattr(module, "__file__", None) or "")
    return file.startswith(tuple(folders)) and not file.endswith("/__main__.py")


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file
    with socket.socket(fileno=int(sys.argv[1])) as own_end:
        known = (sysconfig.get_paths()["purelib"], *sys.argv[2:]) if sys.argv[2:] else ()
        serve(own_end, [*map(os.path.realpath, known)])
        shutil.rmtree(Path(own_end.getsockname()).parent)
