"""Finds the host from which nothing is heard any more. Pure, standard library only, Python 3.10.

mpirun notices a host that the network lost by TCP keepalive, but that is answered by the kernel:
of a host whose orted is frozen it never hears. Therefore a helper beside each rank sends a byte
every few seconds, whatever the rank does (`Heartbeat` in rank.py). A rank that a debugger stopped
goes on sending.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# Seconds without a byte. With 40 busy processes on 2 cores the helper came at most 2 s late; a host
# that swaps, or that its cloud moves, may be silent for longer. Ending a run that would have
# continued costs all since its last checkpoint; waiting for one that hangs costs this minute.
SILENCE = 60.0
START = 300.0  # seconds for the first one: mpirun logs in to all hosts before, and Python starts
LONGEST_WAIT = (
    1.0  # seconds that one wait counts: a supervisor that was stopped itself hears nobody
)


class Heartbeats:
    """Counts for each host the seconds in which its ranks were silent."""

    def __init__(self, slots: Sequence[int]) -> None:
        """`slots`: the number of ranks on each host; ranks fill them in order."""
        self.hosts = [host for host, count in enumerate(slots) for _ in range(count)]
        self.limits = {host: START for host in self.hosts}
        self.silent = {host: 0.0 for host in self.hosts}
        self.going = set(range(len(self.hosts)))

    def heard(self, ranks: Iterable[int]) -> None:
        """Output or a heartbeat of these ranks has come."""
        for rank in ranks:
            if rank < len(self.hosts):
                self.silent[self.hosts[rank]] = 0.0
                self.limits[self.hosts[rank]] = SILENCE

    def ended(self, ranks: Iterable[int]) -> None:
        """These ranks have ended; a host without ranks may be silent."""
        self.going.difference_update(ranks)

    def waited(self, seconds: float) -> None:
        """No output has come for so long, though it would have been read."""
        for host in self.silent:
            self.silent[host] += min(seconds, LONGEST_WAIT)

    def lost(self) -> int | None:
        """The host that has been silent for too long; 0, the chief, if all are: mpirun hangs."""
        hosts = {self.hosts[rank] for rank in self.going}
        lost = sorted(host for host in hosts if self.silent[host] >= self.limits[host])
        if not lost:
            return None
        return 0 if len(lost) == len(hosts) else lost[0]
