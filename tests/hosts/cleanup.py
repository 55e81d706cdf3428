"""Removes what networks of full hosts leave on the machine: our own, and abandoned ones.

A network's folder is in ROOT; its name is the tag in the names of its bridge, wires, network
namespaces and nft table. Everything here needs only the tag, so a killed run can be cleaned up too.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

from hosts.command import run

CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
ROOT = CACHES.resolve() / "railhead" / "test-hosts"  # resolved: the kernel lists mounts so
FORWARDING = ROOT / "forwarding"


def remove_the_dead() -> None:
    """Remove every network whose owner has ended. The caller holds ROOT's lock."""
    for folder in ROOT.glob("rh*_*"):
        if not owner_lives(folder):
            remove(folder)
    forwarding_off_if_unused()


def owner_lives(folder: Path) -> bool:
    """Whether a process holds the lock of a network's owner."""
    owner = folder / "owner"
    if not owner.exists():
        return False
    with owner.open() as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def remove(folder: Path) -> None:
    """Terminate the processes of a network's hosts; remove its mounts, wires, rules and files."""
    tag = folder.name
    hosts = {*Path("/run/netns").glob(f"{tag}_*"), *folder.glob(f"{tag}_*")}
    for host in sorted({path.name for path in hosts}):
        remove_host(folder / host)
    run("ip", "link", "del", tag, check=False)
    run("nft", "delete", "table", "ip", tag, check=False)
    with suppress(FileNotFoundError):
        prefix = (folder / "prefix").read_text()
        run("ip", "route", "del", "unreachable", f"{prefix}.0/24", check=False)
    remove_files(folder)


def remove_host(folder: Path) -> None:
    """The same for one host; its folder has the name of its network namespace."""
    end_processes(folder.name)
    for mount in mounts_below(folder):
        run("umount", "--lazy", mount, check=False)
    run("ip", "netns", "del", folder.name, check=False)
    remove_cgroups(folder.name)
    remove_files(folder)


def end_processes(namespace: str) -> None:
    """Kill all processes in a network namespace, and wait for their end (at most 5 s)."""
    for _ in range(100):
        pids = [int(pid) for pid in run("ip", "netns", "pids", namespace, check=False).split()]
        pids = [pid for pid in pids if pid != os.getpid() and not is_zombie(pid)]
        if not pids:
            return
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def is_zombie(pid: int) -> bool:
    """Whether the process has ended and only waits to be collected by its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def cgroups(name: str) -> list[Path]:
    """Where control groups of this name are, or would be, in the machine's hierarchies."""
    roots = [Path("/sys/fs/cgroup", part) for part in ("systemd", "unified", "")]
    return [root / name for root in roots if (root / "cgroup.procs").exists()]


def remove_cgroups(name: str) -> None:
    """Remove a host's control groups (within a second: the last process may still be ending)."""
    for _ in range(20):
        for top in cgroups(name):
            for folder, _, _ in os.walk(top, topdown=False):
                with suppress(OSError):
                    Path(folder).rmdir()
        if not any(top.exists() for top in cgroups(name)):
            return
        time.sleep(0.05)


def mounts_below(folder: Path) -> list[str]:
    """Mount points inside a folder, the deepest first."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    points = [line.split()[1] for line in lines]
    return sorted((p for p in points if p.startswith(f"{folder}/")), key=len, reverse=True)


def remove_files(folder: Path) -> None:
    """Remove the folder; RuntimeError if something is still mounted below it."""
    if mounts := mounts_below(folder):
        raise RuntimeError(f"cannot unmount {mounts}: the folder {folder} stays")
    shutil.rmtree(folder, ignore_errors=True)


def forwarding_on(interface: str) -> None:
    """Let packets pass from an interface to others; note it if it was off."""
    switch = forwarding_switch(interface)
    if switch.read_text().strip() == "0":
        with FORWARDING.open("a") as note:
            note.write(f"{interface}\n")
        switch.write_text("1")


def forwarding_off_if_unused() -> None:
    """Restore the machine's interfaces after the last network."""
    if not FORWARDING.exists() or any(owner_lives(folder) for folder in ROOT.glob("rh*_*")):
        return
    for interface in FORWARDING.read_text().split():
        with suppress(FileNotFoundError):
            forwarding_switch(interface).write_text("0")
    FORWARDING.unlink()


def forwarding_switch(interface: str) -> Path:
    """The kernel's switch for one interface; the one for the whole machine stays as it is."""
    return Path(f"/proc/sys/net/ipv4/conf/{interface}/forwarding")
