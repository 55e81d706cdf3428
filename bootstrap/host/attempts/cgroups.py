"""How the kernel identifies a rank: its pid, name and memory cgroups, noted at its start."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping

from railhead.documents.codec import encode, key
from railhead.documents.lazy import dataclass

from ..base import free_memory

STARTED = "rank-{rank}.json"  # in the run's folder: a `Started`
FIRST_NAMESPACE = "pid:[4026531836]"  # the initial pid namespace: the kernel's log has its pids


@dataclass(frozen=True)
class Started:
    """A rank at its start. `is_inside`: in another pid namespace, so the kernel's log has another
    pid; `kills`: the kill counts of its memory cgroups, by file."""

    pid: int = key()
    name: str = key()
    is_inside: bool = key()
    kills: Mapping[str, int] = key()


def cgroup_files() -> Iterator[str]:
    """The files in which the memory cgroups of this process (v1 or v2) count kills."""
    with contextlib.suppress(OSError):
        for version, path in free_memory.own_groups():
            name = "memory.oom_control" if version else "memory.events"
            yield f"{free_memory.GROUPS}{version}{path}/{name}"


def kills(file: str) -> int | None:
    """How many processes the kernel has killed in a cgroup for lack of memory; None if the file
    does not say."""
    with contextlib.suppress(OSError, ValueError):
        return free_memory.number(file, "oom_kill")
    return None


def note_start(folder: str, rank: int) -> None:
    """Write the `Started` of this process, a rank that starts."""
    with contextlib.suppress(OSError):
        with open("/proc/self/comm") as comm:
            name = comm.read().rstrip("\n")
        kills_now = {file: count for file in cgroup_files() if (count := kills(file)) is not None}
        is_inside = os.readlink("/proc/self/ns/pid") != FIRST_NAMESPACE
        started = Started(os.getpid(), name, is_inside, kills_now)
        with open(os.path.join(folder, STARTED.format(rank=rank)), "w") as file:
            json.dump(encode(started), file)
