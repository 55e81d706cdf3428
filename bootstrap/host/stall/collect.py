"""Samples the ranks of a run on this host twice, with a pause: their stacks, and what their main
threads did in between.

stall.collect RUN PAUSE   -> one JSON line, a list of `Sample`

The supervisor runs it on every host. It only reads; a signal that the ranks handle requests their
stacks.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping

from railhead.documents.codec import encode, key
from railhead.documents.lazy import dataclass

from ..base import programs
from ..run.end_processes import marked_run, read
from . import dump

RANK = f"{programs.RANK}\0".encode()  # in the command line of a rank
MOST_RANKS = 256  # of a host
SETTLE = 0.2  # seconds after the stacks: then the handling of the signal is not counted
TICKS = os.sysconf("SC_CLK_TCK")
LONGEST = 120  # characters of a text, such as a child's command
CROWDED = 2  # runnable processes for each CPU, on average: work may be slow


@dataclass(frozen=True)
class Sample:
    """A rank during the pause of `seconds`. `state`: of its main thread, as in /proc (`T`: stopped,
    `D`: waits for a disk), at both ends of the pause. `cpu`, `child_cpu`: seconds in which the main
    thread, or all children, used a CPU or waited for one; `process_cpu`: CPU time of all threads;
    `switches`: how often the main thread began to wait; `bytes`: what it and the children read and
    wrote; `wait`: the function of the kernel in which the main thread waits; `stacks`: the text of
    faulthandler before and after the pause, "" if the rank did not answer; `child`: the command of
    its newest child; `crowded`: whether the host has much more work than CPUs."""

    rank: int = key(at_least=0)
    pid: int = key(at_least=1)
    seconds: float = key(at_least=0)
    state: str = key()
    cpu: float = key()
    process_cpu: float = key()
    child_cpu: float = key()
    switches: int = key()
    bytes: int = key()
    wait: str = ""
    stacks: tuple[str, str] = ("", "")
    child: str = ""
    crowded: bool = False


@dataclass(frozen=True)
class _Counts:
    """The kernel's counts of a rank."""

    state: str
    cpu: float
    process_cpu: float
    child_cpu: float
    switches: int
    bytes: int


def ranks_here(run_id: str) -> dict[int, int]:
    """{rank: pid} of the run's ranks on this host. A process that a rank has forked has the same
    mark: the oldest process is the rank."""
    first: dict[int, tuple[int, int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int(name)
            if RANK not in read(pid, "cmdline") or marked_run(pid) != run_id:
                continue
            rank, start = _rank_of(pid), int(_stat(pid)[19])
            first[rank] = min(first.get(rank, (start, pid)), (start, pid))
    return {rank: pid for rank, (_, pid) in sorted(first.items())[:MOST_RANKS]}


def _rank_of(pid: int) -> int:
    """The rank that mpirun has set for a process; ValueError if it has set none."""
    prefix = b"OMPI_COMM_WORLD_RANK="
    for variable in read(pid, "environ").split(b"\0"):
        if variable.startswith(prefix):
            return int(variable[len(prefix) :])
    raise ValueError(pid)


def _stat(pid: int | str) -> list[bytes]:
    """The fields of /proc/PID/stat after the command: the state is the first."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b") ")[2].split()


def _seconds(fields: list[bytes], *numbers: int) -> float:
    return sum(int(fields[number]) for number in numbers) / TICKS


def _counts(pid: int, children: Mapping[int, list[int]]) -> _Counts:
    """The kernel's counts now. OSError if the process has ended."""
    main, process = _stat(f"{pid}/task/{pid}"), _stat(pid)
    of_children, moved = _seconds(process, 13, 14), _moved(pid, f"task/{pid}/io")
    for child in _below(pid, children):
        with contextlib.suppress(OSError):
            of_children += _seconds(_stat(child), 13, 14)
            of_children += sum(
                _wanted(child, thread) for thread in os.listdir(f"/proc/{child}/task")
            )
            moved += _moved(child, "io")
    switches = _number(read(pid, f"task/{pid}/status"), b"voluntary_ctxt_switches:")
    cpu = _wanted(pid, pid), _seconds(process, 11, 12), of_children
    return _Counts(main[0].decode(), *cpu, switches, moved)


def _wanted(pid: int, thread: int | str) -> float:
    """The seconds in which a thread used a CPU or waited for one; only the used ones if the kernel
    does not count the others."""
    try:
        used, waited, _ = read(pid, f"task/{thread}/schedstat").split()
        return (int(used) + int(waited)) / 1e9
    except (OSError, ValueError):
        return _seconds(_stat(f"{pid}/task/{thread}"), 11, 12)


def _moved(pid: int, name: str) -> int:
    """The bytes that a thread or a process has read and written; 0 if this user may not read
    them."""
    with contextlib.suppress(OSError):
        text = read(pid, name)
        return _number(text, b"rchar:") + _number(text, b"wchar:")
    return 0


def _number(text: bytes, label: bytes) -> int:
    """The number after a label at the start of a line; 0 if there is none."""
    for line in text.splitlines():
        if line.startswith(label):
            return int(line[len(label) :])
    return 0


def _children() -> dict[int, list[int]]:
    """{pid: its children} of all processes."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError):
            children.setdefault(int(_stat(name)[1]), []).append(int(name))
    return children


def _below(pid: int, children: Mapping[int, list[int]]) -> list[int]:
    """All descendants of a process."""
    pids: list[int] = []
    waiting = list(children.get(pid, ()))
    while waiting and len(pids) < 1000:
        pids.append(waiting.pop())
        waiting += children.get(pids[-1], ())
    return pids


def _text(pid: int, name: str) -> str:
    """A file of a process in /proc, shortened; "" if this user may not read it."""
    with contextlib.suppress(OSError):
        return read(pid, name).replace(b"\0", b" ").decode(errors="replace").strip()[:LONGEST]
    return ""


def stacks_of(ranks: Mapping[int, int]) -> dict[int, str]:
    """{rank: its stacks}, of all ranks at about the same time."""
    paths = {rank: dump.request(pid) for rank, pid in ranks.items()}
    return dict.fromkeys(ranks, "") | dump.answers({r: path for r, path in paths.items() if path})


def collected(run_id: str, pause: float) -> list[Sample]:
    """A sample of each rank here; ranks that end meanwhile are left out."""
    ranks = ranks_here(run_id)
    before, children = stacks_of(ranks), _children()
    time.sleep(SETTLE)
    begin = {}
    for rank, pid in ranks.items():
        with contextlib.suppress(OSError, IndexError):
            begin[rank] = _counts(pid, children)
    time.sleep(pause)
    end = {}
    for rank in begin:
        with contextlib.suppress(OSError, IndexError):
            end[rank] = _counts(ranks[rank], children)
    after = stacks_of({rank: ranks[rank] for rank in end})
    samples = []
    crowded = os.getloadavg()[0] > CROWDED * (os.cpu_count() or 1)
    for rank, last in end.items():
        first, pid = begin[rank], ranks[rank]
        states = {first.state, last.state}
        samples.append(
            Sample(
                rank=rank,
                pid=pid,
                seconds=pause,
                state=states.pop() if len(states) == 1 else "R",
                cpu=round(last.cpu - first.cpu, 2),
                process_cpu=round(last.process_cpu - first.process_cpu, 2),
                child_cpu=round(last.child_cpu - first.child_cpu, 2),
                switches=last.switches - first.switches,
                bytes=last.bytes - first.bytes,
                wait=_text(pid, "wchan").strip("0"),
                stacks=(before[rank], after[rank]),
                crowded=crowded,
                child=_text(max(children[pid]), "cmdline") if children.get(pid) else "",
            )
        )
    return samples


def main(run_id: str, pause: str) -> None:
    """Print the samples."""
    print(json.dumps(encode(collected(run_id, float(pause)))))
