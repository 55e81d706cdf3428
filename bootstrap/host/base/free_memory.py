"""Measures how much memory a new process may use here."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

GROUPS, OWN = "/sys/fs/cgroup", "/proc/self/cgroup"
# For cgroup v2 and v1: the limit, the used bytes, and how many of these the kernel can drop.
OF_VERSION = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "/memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def available() -> int:
    """The available bytes of this host, or of this process's cgroup with the fewest; 0 if
    unknown."""
    try:
        return min([number("/proc/meminfo", "MemAvailable:") * 1024, *_of_groups()])
    except OSError:
        return 0


def own_groups() -> Iterator[tuple[str, str]]:
    """The memory cgroups of this process, each as "" (v2) or "/memory" (v1), and its path; OSError
    if they are not known."""
    with open(OWN) as file:
        for line in file:
            number, controllers, path = line.rstrip("\n").split(":", 2)
            if number == "0":
                yield "", path
            elif "memory" in controllers.split(","):
                yield "/memory", path


def _of_groups() -> Iterator[int]:
    """The available bytes of each cgroup of this process that has a limit."""
    for version, path in own_groups():
        limit, used, droppable = OF_VERSION[version]
        while True:
            folder = f"{GROUPS}{version}{path.rstrip('/')}"
            # "max": no limit; the root cgroup has no such file
            with contextlib.suppress(OSError, ValueError):
                free = number(f"{folder}/{limit}") - number(f"{folder}/{used}")
                yield free + number(f"{folder}/memory.stat", droppable)
            if path in ("", "/"):
                break
            path = os.path.dirname(path)


def number(file: str, label: str = "") -> int:
    """The number in a file, after a label at the start of a line. OSError, ValueError: there is
    none."""
    with open(file) as lines:
        for words in map(str.split, lines):
            if not label or words[:1] == [label]:
                return int(words[1 if label else 0])
    raise ValueError(file)
