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
from collections.abc import Iterator

from railhead.documents.codec import encode, key
from railhead.documents.lazy import dataclass, replace
from railhead.documents.runs.cause import LONGEST
from railhead.documents.runs.result import Culprit
from railhead.documents.runs.run import RunDocument

from ..base import bounded, programs
from ..base.full_disk import lacks_inodes
from ..causes.causes import KERNEL, NO_INODES, ROWS, Failure
from ..run import end_processes, time_left
from . import kernel_log, preempted

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
    kernel = kernel_log.of_rank(folder, rank, lines)
    return Evidence(tuple(kernel), tuple(full_disks(folder)), tuple(preempted.notices()))


def main(run_id: str, seconds: str, rank: str) -> None:
    """Print the evidence on this host."""
    folder = os.path.join(end_processes.HOME, ".railhead", "runs", run_id)
    print(json.dumps(encode(look(folder, float(seconds), rank))))
