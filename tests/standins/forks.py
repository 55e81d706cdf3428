"""Python programs as forks of a process that has imported their modules: `forked PROGRAM ARGS`.

A fork has its own arguments, folder, environment, umask, limit of file size, input, output and exit
code. A test that signals or kills a program starts a process instead.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from places import ROOT, TESTS
from standins.fork_client import exit_code, request

FORKED = TESTS / "standins/forked"
FAB = Path(sys.executable).parent / "fab"
FAB_OF_A_STACK = TESTS / "standins/fab_of_a_stack.py"
Done = subprocess.CompletedProcess[str]
STARTED: list[subprocess.Popen[bytes]] = []  # its stdin is open while this process runs


@cache
def forks() -> str:
    """The server of this process, which `forked` finds by RAILHEAD_FORKS. It has the modules of the
    project imported, too: all its programs use this copy of them."""
    return started(sys.executable, str(ROOT))


@cache
def with_tensorflow(python: str) -> str:
    """Such a server of a runtime's python: it has TensorFlow and Keras imported, and nothing that
    its programs import later."""
    address, text = started(python), json.dumps({"learned": ["tensorflow", "keras"]}).encode()
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        server.sendall(len(text).to_bytes(4, "big") + text)
    return address


def started(python: str, *folders: str) -> str:
    """Start a server; its address. It ends when its stdin does: with this process."""
    from time_budgets import HELPERS  # not before pytest has loaded this plugin

    # The server removes it.
    place = Path(tempfile.mkdtemp(prefix="railhead-forks-")) / "socket"
    # gRPC's handlers are for forks of a running gRPC; NumPy would start threads.
    options = {"GRPC_ENABLE_FORK_SUPPORT": "0", "OPENBLAS_NUM_THREADS": "1"}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen(64)
        number = listener.fileno()
        process = subprocess.Popen(
            [python, str(TESTS / "standins/fork_server.py"), str(number), *folders],
            env={**os.environ, **options, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            pass_fds=[number],
            start_new_session=True,
        )
    HELPERS.add(process.pid)
    STARTED.append(process)
    return str(place)


def run_fab(
    folder: Path,
    args: Sequence[str],
    environment: Mapping[str, str],
    seconds: float,
    *,
    program: Path = FAB,
    merged: bool = False,
    **process: object,
) -> Done:
    """Type `fab ARGS` and wait; `merged` puts stderr into stdout. `process` is as for a request."""
    readable, writable = zip(*(os.pipe() for _ in range(1 if merged else 2)), strict=True)
    null = os.open(os.devnull, os.O_RDONLY)
    streams = [null, writable[0], writable[-1]]
    argv, process = [str(program), *args], {**process, "folder": str(folder)}
    with ThreadPoolExecutor(2) as pool:
        with request(forks(), argv, environment, streams, **process) as server:
            for stream in {*streams}:
                os.close(stream)
            outputs = [pool.submit(read, pipe) for pipe in readable]
            server.settimeout(seconds)
            try:
                code = exit_code(server)
            except TimeoutError:
                code = None  # the server kills it
        texts = [output.result(seconds) for output in outputs]
    assert code is not None, f"{args} took more than {seconds} s:\n{texts}"
    return subprocess.CompletedProcess([*argv], code, *texts)


def read(pipe: int) -> str:
    """All that comes from a pipe."""
    with os.fdopen(pipe, "rb") as file:
        return file.read().decode()


def forked_fab(folder: Path, *args: str, program: Path = FAB, **environment: str) -> Done:
    """Type `fab ARGS` with the environment of the test; `environment` replaces variables."""
    return run_fab(folder, args, {**os.environ, **environment}, 60, program=program)
