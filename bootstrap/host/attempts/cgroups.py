"""Whether a line of the kernel's log is about a rank, and not about another process of the host: a
kill for lack of memory, an error of its program on a GPU."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from railhead.documents.codec import encode, key
from railhead.documents.lazy import dataclass

from ..base import json_file

STARTED = "rank-{rank}.json"  # in the run's folder: what a rank was at its start
KILL = re.compile(r"Kill(?:ed)? process (\d+) \(([^)]*)\)|task=([^,]*),pid=(\d+)")
# An Xid that a program causes; NVIDIA's driver writes the pid in many ways, also as '<unknown>'.
XID = re.compile(r"NVRM: Xid \([^)]*\): (?:13|31|43), pid=(\d+)")
FIRST_NAMESPACE = "pid:[4026531836]"  # of all pids, whose numbers the kernel's log has


@dataclass(frozen=True)
class Started:
    """A rank at its start. `is_inside`: in a namespace of pids, where the kernel's log has another
    number; `kills`: the counts of its memory cgroups, by file."""

    pid: int = key()
    name: str = key()
    is_inside: bool = key()
    kills: Mapping[str, int] = key()

    def may_be_in(self, line: str) -> bool:
        """Whether a line of the kernel's log may be about this process."""
        if xid := XID.search(line):
            return self.is_inside or int(xid[1]) == self.pid
        kill = KILL.search(line)
        if not kill:
            return True
        pid, name = kill[1] or kill[4], kill[2] or kill[3]
        return name == self.name if self.is_inside else int(pid) == self.pid


def cgroup_files() -> Iterator[str]:
    """The files in which this process's memory cgroup counts its kills: of version 2, of 1."""
    with contextlib.suppress(OSError), open("/proc/self/cgroup") as file:
        for line in file:
            number, controllers, path = line.rstrip("\n").split(":", 2)
            if number == "0":
                yield f"/sys/fs/cgroup{path}/memory.events"
            elif "memory" in controllers.split(","):
                yield f"/sys/fs/cgroup/memory{path}/memory.oom_control"


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


def of_rank(folder: str, rank: str, lines: Sequence[str]) -> Iterator[str]:
    """The lines of the kernel's log without those about other processes; a line for each cgroup of
    the rank in which the kernel has killed more processes since its start than these."""
    try:
        started = json_file.read(os.path.join(folder, STARTED.format(rank=rank)), Started)
    except (OSError, ValueError):  # it did not start, or could not write
        yield from lines
        return
    yield from filter(started.may_be_in, lines)
    matches = [KILL.search(line) for line in lines if not started.may_be_in(line)]
    others = {match[1] or match[4] for match in matches if match}
    for path, before in started.kills.items():
        after = kills(path)
        if after is not None and after > before + len(others):
            yield f"oom_kill of its cgroup rose from {before} to {after} ({path})"
