"""Collects evidence of a failure on a host: the kernel's log, full disks, whether the cgroup of a
rank ran out of memory, and whether the cloud is taking the machine back.

attempts.evidence RUN SECONDS RANK   -> one JSON line: the evidence of the last SECONDS

It only reads; a log that this user may not read counts as empty.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Sequence

from railhead.documents.codec import encode, key
from railhead.documents.lazy import dataclass, replace
from railhead.documents.runs.cause import LONGEST
from railhead.documents.runs.result import Culprit
from railhead.documents.runs.run import RunDocument

from ..base import bounded, json_file, programs
from ..base.full_disk import lacks_inodes
from ..causes.causes import KERNEL, NO_INODES, PROGRAM_XID, ROWS, Failure
from ..run import end_processes, time_left
from . import preempted
from .cgroups import STARTED, Started, kills

SECONDS = 10.0  # for the answer of a host
OF_LOST = 3.0  # the same for a lost cloud machine: it may be about to power off
LONGEST_AGE = 600.0  # seconds: older lines of the kernel's log are not evidence
LOGS = (
    ("dmesg",),
    ("sudo", "-n", "dmesg"),
    ("journalctl", "-k", "-b", "-q", "--no-pager", "-o", "short-monotonic"),
)
STAMP = re.compile(r"\[ *(\d+\.\d+)\]")  # seconds since the boot
LINES = 20
KILL = re.compile(r"Kill(?:ed)? process (\d+) \(([^)]*)\)|task=([^,]*),pid=(\d+)")
# NVIDIA's driver writes the pid in many ways, also as '<unknown>'.
XID = re.compile(PROGRAM_XID + r", pid=(\d+)")
FULL = 1 << 20  # bytes: a disk with less free space counts as full


@dataclass(frozen=True)
class Evidence:
    """The evidence of a host: lines of its kernel's log, its full disks, notices of its cloud."""

    kernel: tuple[str, ...] = key(())
    space: tuple[str, ...] = key(())
    cloud: tuple[str, ...] = key(())


def collect(run: RunDocument, folder: str, failure: Failure, seconds: float) -> Failure:
    """The failure with the evidence of the last `seconds` on the culprit's host."""
    evidence = _of_host(run, folder, failure.culprit, min(seconds, LONGEST_AGE))
    return replace(failure, kernel=evidence.kernel, space=evidence.space, cloud=evidence.cloud)


def _of_host(run: RunDocument, folder: str, culprit: Culprit, seconds: float) -> Evidence:
    names = [host.name for host in run.hosts]
    is_lost = culprit.rank is None
    if culprit.host not in names or (is_lost and not os.path.exists(time_left.TOOL)):
        return Evidence()
    words = (programs.EVIDENCE, run.run_id, f"{seconds:.0f}", str(culprit.rank))
    argv = end_processes.command_on_host(run, folder, names.index(culprit.host), *words)
    ended = bounded.run(argv, OF_LOST if is_lost else SECONDS)
    with contextlib.suppress(ValueError):
        evidence = end_processes.document_of(Evidence, ended.out)
        return Evidence(cloud=evidence.cloud) if is_lost else evidence
    return Evidence()


def kernel_lines(log: str, since: float) -> list[str]:
    """The lines of a kernel log that match a row of `causes`; `since`: seconds since the boot."""
    patterns = [row.pattern for row in ROWS if row.source == KERNEL]
    lines = []
    for line in log.splitlines():
        stamp = STAMP.search(line)
        if stamp and float(stamp[1]) >= since and any(re.search(p, line) for p in patterns):
            lines.append(line[:LONGEST])
    return lines[-LINES:]


def of_rank(folder: str, rank: str, lines: Sequence[str]) -> Iterator[str]:
    """The lines of the kernel's log without those about other processes. One more line for each
    cgroup of the rank in which, since its start, the kernel has killed more processes than
    those."""
    try:
        started = json_file.read(os.path.join(folder, STARTED.format(rank=rank)), Started)
    except (OSError, ValueError):  # the rank did not start, or could not write it
        yield from lines
        return
    yield from (line for line in lines if may_be_about(started, line))
    matches = [KILL.search(line) for line in lines if not may_be_about(started, line)]
    others = {match[1] or match[4] for match in matches if match}
    for path, before in started.kills.items():
        after = kills(path)
        if after is not None and after > before + len(others):
            yield f"oom_kill of its cgroup rose from {before} to {after} ({path})"


def may_be_about(started: Started, line: str) -> bool:
    """Whether a line of the kernel's log may be about this process."""
    if xid := XID.search(line):
        return started.is_inside or int(xid[1]) == started.pid
    kill = KILL.search(line)
    if not kill:
        return True
    pid, name = kill[1] or kill[4], kill[2] or kill[3]
    return name == started.name if started.is_inside else int(pid) == started.pid


def read_log() -> str:
    """The kernel's log; "" if it cannot be read."""
    for argv in LOGS:
        ended = bounded.run(argv, SECONDS / 4)
        if ended.code == 0:
            return ended.out
    return ""


def full_disks(folder: str) -> Iterator[str]:
    """A line for each folder of a run in which no space or no inode is left."""
    for place in (folder, os.path.join(folder, "tmp"), "/dev/shm"):
        with contextlib.suppress(OSError):
            state = os.statvfs(place)
            if state.f_blocks and state.f_bavail * state.f_frsize < FULL:
                yield f"no space is left in {os.path.realpath(place)}"
            elif lacks_inodes(place):
                yield f"{NO_INODES} in {os.path.realpath(place)}"


def uptime() -> float:
    """Seconds since the boot."""
    with open("/proc/uptime") as file:
        return float(file.read().split()[0])


def look(folder: str, seconds: float, rank: str) -> Evidence:
    """The evidence on this host."""
    lines = kernel_lines(read_log(), uptime() - seconds)
    kernel = of_rank(folder, rank, lines)
    return Evidence(tuple(kernel), tuple(full_disks(folder)), tuple(preempted.notices()))


def main(run_id: str, seconds: str, rank: str) -> None:
    """Print the evidence on this host."""
    folder = os.path.join(end_processes.HOME, ".railhead", "runs", run_id)
    print(json.dumps(encode(look(folder, float(seconds), rank))))
