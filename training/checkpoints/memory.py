"""How much memory this process can still get. Standard library only."""

from __future__ import annotations

from pathlib import Path

# Bytes that stay free when a state is copied: for what else the host allocates meanwhile.
RESERVED = 256 << 20
CGROUPS = Path("/sys/fs/cgroup")


def missing_memory(size: int) -> str:
    """Why a copy of `size` bytes does not fit in the memory of this host, or ""."""
    free = available_memory()
    if free is None or free >= size + RESERVED:
        return ""
    return (
        f"a copy of {size / 1e6:.0f} MB and {RESERVED / 1e6:.0f} MB for everything else do not fit "
        f"in memory, of which {free / 1e6:.0f} MB are free"
    )


def available_memory(proc: Path = Path("/proc"), cgroups: Path = CGROUPS) -> int | None:
    """The bytes of memory that this process can get: of the host, and of its control groups
    (version 2). None if the system does not say."""
    free = [*_of_host(proc), *_of_groups(proc, cgroups)]
    return min(free, default=None)


def _of_host(proc: Path) -> list[int]:
    lines = _text(proc / "meminfo").splitlines()
    return [int(x.split()[1]) * 1024 for x in lines if x.startswith("MemAvailable:")]


def _of_groups(proc: Path, cgroups: Path) -> list[int]:
    """What each group of the process may still use; page cache counts as free."""
    free = []
    for line in _text(proc / "self/cgroup").splitlines():
        if not line.startswith("0::/"):
            continue
        lowest = cgroups / line[4:]
        groups = [lowest, *lowest.parents]
        for group in groups[: groups.index(cgroups) + 1]:
            limit, used = _text(group / "memory.max").strip(), _text(group / "memory.current")
            if limit.isdecimal() and used:
                stat = dict(x.split(" ", 1) for x in _text(group / "memory.stat").splitlines())
                files = int(stat.get("inactive_file", 0))
                free.append(max(0, int(limit) - int(used) + files))
    return free


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
