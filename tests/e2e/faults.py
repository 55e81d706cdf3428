"""Faults of a run on the two local hosts: kills, freezes and broken connections.

After those of ENDS, what is printed continues it; otherwise it continues by itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from e2e.local_hosts import Operator, json_lines_so_far, wait_until

from bootstrap.clouds.local import processes
from bootstrap.untrusted.records import records
from railhead.documents.runs.result import FINAL

CONTINUES = ("rank 0", "rank 1", "daemon", "link", "freeze")
ENDS = ("supervisor", "chief")
# Only where mounts are the campaign's own.
ISOLATED = ("frozen supervisor", "foreign oom")
# Of another process than a rank, which has a rank's name.
OOM = """[{at:.6f}] oom-kill:constraint=CONSTRAINT_NONE,task=python3,pid={pid},uid=0
[{at:.6f}] Out of memory: Killed process {pid} (python3) total-vm:9kB, anon-rss:9kB, UID:0
"""
METRIC = ("--metric", "loss=loss ([0-9.e-]+)")  # of a script that prints 1 / step
FROZEN = 3.0  # seconds, fewer than after which a host counts as lost


def processes_of(operator: Operator, *words: str) -> list[int]:
    """The pids of this person's runs whose command line or variables have the words."""
    return processes_with(f"RAILHEAD_HOME={operator.home}", *words)


def processes_with(*words: str) -> list[int]:
    """The pids of all processes whose command line or variables have the words."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            text = (entry / "environ").read_bytes() + b"\0" + (entry / "cmdline").read_bytes()
            if all(word.encode() in text for word in words):
                pids.append(int(entry.name))
    return pids


def victims(operator: Operator, kind: str) -> list[int]:
    """The processes that a fault of this kind hits."""
    if kind == "daemon":
        return [p for p in processes_of(operator) if _name(p) == "orted"]
    if kind == "freeze":
        return processes_of(operator, "/hosts/h2/home")
    if kind == "supervisor":
        return processes_of(operator, "\0supervisor.supervisor\0")
    if kind == "chief":
        return [*processes.of(host_folder(operator, "h1")), *processes_of(operator, "/h1/home")]
    rank = kind.removeprefix("rank ")
    return processes_of(operator, "rank.rank", f"\0OMPI_COMM_WORLD_RANK={rank}\0")


def happen(operator: Operator, kind: str) -> bool:
    """Let a fault of this kind happen; False if there is nothing left that it could hit."""
    if kind == "link":
        return _break_link(operator)
    if kind == "frozen supervisor":
        return _freeze_supervisor(operator)
    if kind == "foreign oom":
        at = float(Path("/proc/uptime").read_text().split()[0])
        (operator.home / "kernel.log").write_text(OOM.format(at=at, pid=os.getpid()))
        kind = "rank 1"
    pids = victims(operator, kind)
    _send(pids, signal.SIGSTOP if kind == "freeze" else signal.SIGKILL)
    if kind == "freeze":
        time.sleep(FROZEN)
        _send(pids, signal.SIGCONT)
    return bool(pids)


@contextlib.contextmanager
def own_kernel_log(home: Path) -> Iterator[None]:
    """`dmesg` prints a file in this home, in place of the log of this machine's kernel."""
    log, program = home / "kernel.log", home / "dmesg"
    log.touch()
    program.write_text(f"#!/bin/sh\nexec cat {log}\n")
    program.chmod(0o755)
    subprocess.run(["mount", "--bind", str(program), "/usr/bin/dmesg"], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "/usr/bin/dmesg"], check=True)


def _freeze_supervisor(operator: Operator) -> bool:
    """It is stopped until somebody types what `fab status` prints."""
    pids, printed = victims(operator, "supervisor"), list[str]()
    _send(pids, signal.SIGSTOP)

    def is_named() -> bool:
        time.sleep(5)
        printed[:] = re.findall(r"kill -CONT \d+", operator.fab("status").out)
        return bool(printed)

    if pids:
        wait_until(is_named, 80, "status names the frozen supervisor")
        subprocess.run(printed[0].split(), check=True)
    return bool(pids)


def stopped_for(word: str, seconds: float) -> threading.Timer:
    """Stop the programs with this word in their command line; what lets them go on, after this
    time."""
    pids = [pid for pid in processes_with(word) if _name(pid) == "versitygw"]
    assert pids
    _send(pids, signal.SIGSTOP)
    timer = threading.Timer(seconds, lambda: _send(pids, signal.SIGCONT))
    timer.start()
    return timer


def host_folder(operator: Operator, name: str) -> Path:
    """The folder of a ready host."""
    return operator.home / ".railhead/clusters/ready/hosts" / name


def _break_link(operator: Operator) -> bool:
    """The kernel closes every connection between mpirun on h1 and its daemon on h2."""
    pids = victims(operator, "daemon")
    addresses = [a for pid in pids for a in _peers(pid)]
    for local, remote in addresses:
        subprocess.run(["ss", "-K", "src", local, "dst", remote], capture_output=True, check=True)
    return bool(addresses)


def _peers(pid: int) -> list[tuple[str, str]]:
    """The two ends, ADDRESS:PORT, of each TCP connection of a process."""
    listed = subprocess.run(["ss", "-tnpH"], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines() if f"pid={pid}," in line]
    return [(row[3], row[4]) for row in rows]


def _send(pids: list[int], sign: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, sign)


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def step_times(metrics: Path) -> list[tuple[float, float]]:
    """(time, step) of the progress of rank 0, in the order of the file."""
    lines = json_lines_so_far(metrics) if metrics.exists() else []
    return [
        (line["time"], float(line.get("step") or line["number"]))
        for line in lines
        if line.get("kind") in ("progress", "metric") and not line["rank"]
    ]


def wait_for_steps(metrics: Path, more: int) -> None:
    """Wait until so many more steps are recorded, or the run has ended: it may have done so before
    that."""
    count, state = len(step_times(metrics)) + more, metrics.parents[1] / "state.json"

    def has_ended() -> bool:
        return state.exists() and json.loads(state.read_text())["state"] in FINAL

    wait_until(lambda: len(step_times(metrics)) >= count or has_ended(), 280, "it trains")


def steps_of(metrics: Path) -> list[int]:
    """The steps whose loss, which is 1 / step, is recorded and counts."""
    values = [r.figure("value") for r in records(metrics) if r.kind == "metric"]
    return [round(1 / value) for value in values if value]
