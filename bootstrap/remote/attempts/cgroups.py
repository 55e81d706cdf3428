"""Whether the memory cgroup of a rank ran out of memory. Standard library only, Python 3.10."""

from __future__ import annotations

import contextlib
import glob
import json
import os
from collections.abc import Iterator

CGROUP = "cgroup-{rank}.json"  # in the run's folder: a rank's cgroup, and its count of kills


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


def note_cgroup(folder: str, rank: int) -> None:
    """In a rank, at its start: keep the count of its cgroup, to see later whether it grew."""
    counts = {file: count for file in cgroup_files() if (count := kills(file)) is not None}
    with (
        contextlib.suppress(OSError),
        open(os.path.join(folder, CGROUP.format(rank=rank)), "w") as f,
    ):
        json.dump(counts, f)


def grown_cgroups(folder: str) -> Iterator[str]:
    """A line for each cgroup of a rank in which the kernel has killed a process since its start."""
    for name in glob.glob(os.path.join(glob.escape(folder), CGROUP.format(rank="*"))):
        with contextlib.suppress(OSError, ValueError), open(name) as file:
            for path, before in json.load(file).items():
                after = kills(path)
                if after is not None and after > before:
                    yield f"oom_kill of its cgroup rose from {before} to {after} ({path})"
