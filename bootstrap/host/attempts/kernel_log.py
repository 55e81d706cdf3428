"""Selects the lines of the kernel's log that may be about a rank: without kills for lack of memory
and GPU errors of other processes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from ..base import json_file
from ..causes.causes import PROGRAM_XID
from .cgroups import STARTED, Started, kills

KILL = re.compile(r"Kill(?:ed)? process (\d+) \(([^)]*)\)|task=([^,]*),pid=(\d+)")
# NVIDIA's driver writes the pid in many ways, also as '<unknown>'.
XID = re.compile(PROGRAM_XID + r", pid=(\d+)")


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
