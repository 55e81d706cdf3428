"""Who a rank is for the kernel, noted at its start: its pid, its name, its memory cgroups."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping

from railhead.documents.codec import encode, key
from railhead.documents.lazy import dataclass

from ..base import free_memory

STARTED = "rank-{rank}.json"  # in the run's folder: what a rank was at its start
FIRST_NAMESPACE = "pid:[4026531836]"  # of all pids, whose numbers the kernel's log has


@dataclass(frozen=True)
class Started:
    """A rank at its start. `is_inside`: in a namespace of pids, where the kernel's log has another
    number; `kills`: the counts of its memory cgroups, by file."""

    pid: int = key()
    name: str = key()
    is_inside: bool = key()
    kills: Mapping[str, int] = key()


def cgroup_files() -> Iterator[str]:
    """The files in which this process's memory cgroup counts its kills: of version 2, of 1."""
    with contextlib.suppress(OSError):
        for version, path in free_memory.own_groups():
            name = "memory.oom_control" if version else "memory.events"
            yield f"{free_memory.GROUPS}{version}{path}/{name}"


def kills(file: str) -> int | None:
    """How many processes the kernel has killed in a cgroup for lack of memory; None if the file
    does not say."""
    with contextlib.suppress(OSError, ValueError), open(file) as text:
        for line in text:
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return None


def note_start(folder: str, rank: int) -> None:
    """In a rank, at its start: keep who it is, and the counts of its cgroups."""
    with contextlib.suppress(OSError):
        with open("/proc/self/comm") as comm:
            name = comm.read().rstrip("\n")
        kills_now = {file: count for file in cgroup_files() if (count := kills(file)) is not None}
        is_inside = os.readlink("/proc/self/ns/pid") != FIRST_NAMESPACE
        started = Started(os.getpid(), name, is_inside, kills_now)
        with open(os.path.join(folder, STARTED.format(rank=rank)), "w") as file:
            json.dump(encode(started), file)
