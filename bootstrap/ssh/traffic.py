"""What the way to each host has cost since its first connection: time, connections, bytes sent.

Counted where connections are opened and where bytes leave, so also what was tried again, what a
reboot cost, and the jumps on the way.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass, field

from bootstrap.console.text import count, duration, size


@dataclass
class Traffic:
    """Of one host; `begun` is when its first connection was asked for."""

    begun: float = field(default_factory=time.monotonic)
    connections: int = 0
    sent: int = 0

    def told(self) -> str:
        """All until now, as in `41 s, 1 connection, 88 MB sent`."""
        seconds = duration(time.monotonic() - self.begun)
        return f"{seconds}, {count(self.connections, 'connection')}, {size(self.sent)} sent"


_hosts: dict[str, Traffic] = {}


def to(host: str) -> Traffic:
    """All that this process had to do with a host of this name."""
    return _hosts.setdefault(host, Traffic())


class Counted(socket.socket):
    """A connected socket that counts what it sends; the one that it is made of is closed."""

    def __init__(self, sock: socket.socket, traffic: Traffic) -> None:
        seconds = sock.gettimeout()
        super().__init__(fileno=sock.detach())
        self.settimeout(seconds)
        self.traffic = traffic

    def send(self, data: bytes, flags: int = 0, /) -> int:  # type: ignore[override]
        """As a socket's."""
        sent = super().send(data, flags)
        self.traffic.sent += sent
        return sent
