"""Detects that a host is cut off from the chief, so that mpirun can no longer end its ranks.

The rank's parent (orted; prted in Open MPI 5) sends the helper's heartbeats over TCP to mpirun on
the chief. The chief's kernel acknowledges them, however slow the programs there are. Without an
acknowledgement the kernel here retransmits the data, and gives up after a quarter of an hour or
more (net.ipv4.tcp_retries2).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

from ..base import programs, sockets
from ..base.children import unmarked

LIMIT = 120.0  # seconds without an acknowledgement: longer than a live migration of a cloud machine


class Link:
    """Counts the seconds in which the chief's kernel acknowledged nothing."""

    def __init__(self, orted: int) -> None:
        self.orted, self.tries, self.seconds = orted, 0, 0.0

    def is_cut(self, passed: float) -> bool:
        """Check again, `passed` seconds after the last time; whether LIMIT is reached. An
        acknowledgement resets the kernel's count, so a lower count means that one arrived."""
        before, self.tries = self.tries, most_tries(sockets.rows_of(self.orted))
        self.seconds = self.seconds + passed if 0 < self.tries >= before else 0.0
        return self.seconds >= LIMIT


def most_tries(rows: Iterable[Sequence[str]]) -> int:
    """The largest number of retransmissions in these rows of /proc/net/tcp. `retrnsmt` counts data
    that was sent; `timeout` counts data that this host could not even send, for example because its
    interface is down."""
    return max((max(int(row[6], 16), int(row[8])) for row in rows), default=0)


def end_run_here(folder: str, run_id: str) -> None:
    """Exec the program that ends all processes of the run on this host. It runs without the run's
    marks, so that it ends neither itself nor the same program of another rank."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)  # orted no longer reads
    os.chdir(folder)
    os.execve(sys.executable, programs.command(programs.END_PROCESSES, run_id), unmarked())
