"""A run that continues with the remaining hosts: its document, hostfile and mpirun command.

An absent host stays in the list of hosts, with 0 slots, so its number, its alias and the paths of
its data do not change.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping

from railhead.documents.lazy import replace
from railhead.documents.runs.run import Role, RunDocument

from ..base import bounded, json_file, programs
from ..base.programs import WHOLE
from ..run import end_processes
from ..upload.changes import Changes
from . import points
from .points import Checkpoints

LOOK = 10.0  # seconds between two checks for absent hosts


def whole(folder: str) -> RunDocument:
    """The document of the run with all of its hosts. OSError, ValueError: it is not there, or
    damaged."""
    document = json_file.if_any(os.path.join(folder, WHOLE), RunDocument)
    return document or json_file.read(os.path.join(folder, "run.json"), RunDocument)


def without(run: RunDocument, absent: Collection[str]) -> RunDocument:
    """The document of a run of all hosts, without the absent ones."""
    hosts = tuple(replace(h, slots=0) if h.name in absent else h for h in run.hosts)
    ranks = [rank for rank in range(run.size) if hosts[run.host_of(rank)].slots]
    roles, addresses = _roles(run, ranks)
    return replace(run, hosts=hosts, size=len(ranks), roles=roles, tf_cluster=addresses)


def _roles(
    run: RunDocument, ranks: Collection[int]
) -> tuple[tuple[Role, ...] | None, Mapping[str, tuple[str, ...]] | None]:
    """`roles` and `tf_cluster` of these ranks, renumbered."""
    if run.roles is None or run.tf_cluster is None:
        return None, None
    numbers: Counter[str] = Counter()
    roles: list[Role] = []
    cluster: dict[str, tuple[str, ...]] = {}
    for rank in ranks:
        role = run.roles[rank]
        roles.append(Role(role.type, numbers[role.type]))
        numbers[role.type] += 1
        address = run.tf_cluster[role.type][role.index]
        cluster[role.type] = (*cluster.get(role.type, ()), address)
    return tuple(roles), cluster


def absent_hosts(run: RunDocument) -> tuple[str, ...]:
    """The hosts that have no ranks in this attempt."""
    return tuple(host.name for host in run.hosts if not host.slots)


def place(folder: str, run: RunDocument) -> None:
    """On the chief, write the hostfile and the mpirun command for the hosts of this attempt.
    OSError, ValueError: a file cannot be read or written."""
    lines = [f"railhead-{n + 1} slots={h.slots}\n" for n, h in run.present.items()]
    with open(os.path.join(folder, "hostfile"), "w") as file:
        file.writelines(lines)
    path = os.path.join(folder, "mpirun.json")
    argv: list[str] = json_file.load(path)
    if "-np" in argv:
        argv[argv.index("-np") + 1] = str(run.size)
    json_file.save(path, argv)


class Returning:
    """Checks from the chief, while the others train, whether absent hosts answer again. `unfit`
    hosts are left out: they answered before, but could not be prepared."""

    def __init__(
        self,
        run: RunDocument,
        folder: str,
        unfit: Collection[str] = (),
        changes: Changes | None = None,
    ) -> None:
        self.run, self.folder, self.changes = run, folder, changes
        self.absent = tuple(name for name in absent_hosts(run) if name not in unfit)
        self.looked = time.monotonic()
        self.looks: dict[str, subprocess.Popen[bytes]] = {}
        self.back, self.since = "", 0.0  # the first host that answers again, and when

    def look(self) -> None:
        """Check again if it is time. Never waits; an error does not end the run."""
        if not self.absent or self.back:
            return
        for name, process in [*self.looks.items()]:
            if process.poll() is not None:
                del self.looks[name]
                if process.returncode == 0:
                    self.back, self.since = name, time.time()
        if not self.looks and time.monotonic() - self.looked >= LOOK:
            self.looked = time.monotonic()
            with contextlib.suppress(OSError):  # no process can be started now
                for name in self.absent:
                    self.looks[name] = self._start(name)

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        """Start a no-op program on that host, without the run's marks."""
        index = [host.name for host in self.run.hosts].index(name)
        words = programs.END_PROCESSES, "none"
        argv = end_processes.command_on_host(self.run, self.folder, index, *words)
        return bounded.start_beside(argv, os.devnull)

    def is_due(self, lacks_time: Callable[[Checkpoints], bool]) -> bool:
        """Whether a host is back, the others have written a checkpoint since, and there is time for
        another attempt. If there is no time, hosts are not checked any more."""
        if not self.back:
            return False
        checkpoints = points.checkpoints(self.folder, self.changes)
        if checkpoints.newest.completed <= self.since:
            return False
        if lacks_time(checkpoints):
            self.absent, self.back = (), ""
        return bool(self.back)
