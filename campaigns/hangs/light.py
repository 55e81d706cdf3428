"""Runs of small programs without TensorFlow: the real mpirun, ranks and supervisor on this machine.

Their collective is a library with the name of Horovod, which waits on a socket. So many runs fit on
few cores at the same time.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from standins.runs.supervised_run import Run, with_script

from .runs import AFTER, RANKS

LIBRARY = """
import os, socket, threading
RANK, SIZE = int(os.environ["RAILHEAD_RANK"]), int(os.environ["RAILHEAD_SIZE"])
PATH = os.path.join(os.path.dirname(os.path.dirname(__file__)), "socket")
def serve(server):
    peers = [server.accept()[0] for _ in range(SIZE)]
    while all(peer.recv(1) for peer in peers):
        for peer in peers:
            peer.send(b"x")
def init():
    global own
    if RANK == 0:
        server = socket.socket(socket.AF_UNIX)
        server.bind(PATH)
        server.listen(SIZE)
        threading.Thread(target=serve, args=(server,), daemon=True).start()
    own = socket.socket(socket.AF_UNIX)
    while own.connect_ex(PATH):
        threading.Event().wait(0.1)
def allreduce():
    own.send(b"x")
    own.recv(1)
"""


def result_of(script: str, hangs: int) -> tuple[dict[str, Any], str]:
    """(result.json, metrics.jsonl) of a run of the script."""
    with tempfile.TemporaryDirectory(prefix="light") as folder:
        library = Path(folder) / "library/horovod"
        library.mkdir(parents=True)
        (library / "__init__.py").write_text(LIBRARY)
        environment = {"HANGS": str(hangs), "LIBRARY": str(library.parent)}
        hosts = [{"name": "h1", "slots": RANKS}]
        changes: dict[str, Any] = {
            "hosts": hosts,
            "size": RANKS,
            "stall_after": AFTER,
            "env": environment,
        }
        home = Path(folder) / "home"
        home.mkdir()
        run = with_script(Run(home, "", **changes), script, RANKS)
        run.start().wait(400)
        metrics = (run.folder / "results/metrics.jsonl").read_text()
        result: dict[str, Any] = run.read("results/result.json")
        return result, metrics
