"""The process of which the ranks of built-in trainings are forks (tests/standins/warm_ranks.py).

    warm_rank_server.py ARCHIVE DIGEST ROOM

It is the spare (bootstrap/host/rank/spare.py) of all hosts of all runs: a run finds one before its
first attempt, if it has the runtime of this digest. Each line of its input is a home with local
hosts. It ends when its input does; its folder is removed.
"""

from __future__ import annotations

import contextlib
import gc
import glob
import importlib
import os
import select
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path[0] = sys.argv[1]  # the programs of hosts, not what is beside this file


def of_hosts(name: str) -> Any:
    """A module of the programs of hosts."""
    return importlib.import_module(f"host.{name}")


spare, stand_in, programs = (
    of_hosts("rank.spare"),
    of_hosts("rank.stand_in"),
    of_hosts("base.programs"),
)
process_text = of_hosts("base.process_text")
spare.KEPT = 15.0  # seconds without a rank: a run that does not start leaves nothing for long
LOOK = 0.1  # seconds between two looks for runs
RUNS = "/.railhead/clusters/*/hosts/*/home/.railhead/runs"
MARKS = f"MARKS_OF_A_RUN={sys.argv[3]}"  # a variable in whose place those of a run are shown


def serve() -> int:
    """Stand by for each new run until the input ends; in a fork that becomes a rank, its code."""
    homes, seen = list[str](), set[str]()
    while True:
        if select.select([0], [], [], LOOK)[0]:
            lines = os.read(0, 1 << 16).decode()
            if not lines:
                shutil.rmtree(Path.cwd())
                return 0
            new = lines.splitlines()
            homes, seen = homes + new, seen | {*documents(new)}
        spare.has_children()  # reaps them
        for path in {*documents(homes)} - seen:
            seen.add(path)
            code = stood_by(path.removesuffix("/run.json"))
            if code is not None:
                return code


def documents(homes: list[str]) -> Iterator[str]:
    """The documents of the runs on all hosts. Without pathlib: it is called ten times a second."""
    for home in homes:
        for runs in glob.glob(glob.escape(home) + RUNS):  # noqa: PTH207
            with contextlib.suppress(OSError):  # it was removed
                paths = [f"{runs}/{name}/run.json" for name in os.listdir(runs)]  # noqa: PTH208
                yield from filter(os.path.exists, paths)


def stood_by(folder: str) -> int | None:
    """Let a fork be the spare of this host for this run, if that suits; there, its exit code."""
    try:
        run = spare.run_of(folder)
    except (OSError, ValueError):  # it was removed, or is not a document
        return None
    name = folder.rpartition("/hosts/")[2].partition("/")[0]
    numbers = [number for number, host in enumerate(run.hosts) if host.name == name]
    if not (suits(run) and numbers):
        return None
    return None if os.fork() else be_spare(folder, numbers[0], run.run_id)


def suits(run: Any) -> bool:
    """Whether its ranks import what this process imports, and change nothing in it."""
    kinds = run.launcher in ("horovod", "tensorflow"), type(run.program).__name__ == "BuiltIn"
    return all(kinds) and run.spare and run.keras == 3 and run.runtime.digest == sys.argv[2]


def load() -> None:
    """Import what a built-in training imports."""
    gc.disable()
    for name in ("tensorflow", "keras"):
        importlib.import_module(name)
    # Graphs stay as they are: small ones run a few times, and to optimize them takes longer.
    options = {"disable_meta_optimizer": True}
    sys.modules["tensorflow"].config.optimizer.set_experimental_options(options)
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)  # the trainings are short
    gc.enable()
    assert not spare.unsafe(), spare.unsafe()


class Spare(spare.Spare):  # type: ignore[misc, name-defined]
    """One that has not imported with the variables of a run."""

    def refusal(self, request: Any) -> str:
        """As of a spare that its run has started."""
        self.environment = of_hosts("rank.quick_import").read_by_imports(request.env)
        return str(super().refusal(request))


def be_spare(folder: str, number: int, run_id: str) -> int:
    """Answer the ranks of this host; in a fork that becomes a rank, its exit code."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    show(folder, number, run_id)
    source, output = os.pipe()
    os.close(source)
    with socket.socket(socket.AF_UNIX) as listener:
        standing = Spare(folder)
        standing.imports.watch()
        listener.bind(f"\0{stand_in.socket_name(standing.run, number)}")
        listener.listen(128)
        request = spare.served(listener, output, standing.refusal)
    if request is None:
        os._exit(0)
    spare.become(request)
    code: int = spare.ranks.be_rank(standing.run, folder, request.parent, standing.imports)
    return code


def show(folder: str, number: int, run_id: str) -> None:
    """Show what /proc shows of a spare."""
    marks = f"RAILHEAD_RUN={run_id}\0RAILHEAD_HOME={folder.partition('/.railhead/runs/')[0]}"
    process_text._replace(process_text.VARIABLES, MARKS.encode(), marks.encode())
    before = Path("/proc/self/cmdline").read_bytes()
    words = (sys.executable, f"{folder}/{programs.NAME}", programs.SPARE, folder, str(number))
    process_text._replace(process_text.COMMAND, before, "\0".join(words).encode())
    of_hosts("base.children").set_name(spare.SPARE.encode())


if __name__ == "__main__":
    load()
    sys.exit(serve())
