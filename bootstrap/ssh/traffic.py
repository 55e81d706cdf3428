"""The cost of reaching each host since the first connection: time, connections, bytes sent.

Connections are counted where they are opened and bytes where they leave this computer, so retries,
reconnects after a reboot, and jump hosts are included.
"""

from __future__ import annotations

import contextlib
import socket
import time
from dataclasses import field

from railhead.documents.lazy import dataclass

from ..console.text import count, duration, size


@dataclass
class Traffic:
    """The traffic to one host; `begun` is the monotonic time of its first connection attempt."""

    begun: float = field(default_factory=time.monotonic)
    connections: int = 0
    sent: int = 0

    def summary(self) -> str:
        """The totals until now: `41 s, 1 connection, 88 MB sent`."""
        seconds = duration(time.monotonic() - self.begun)
        return f"{seconds}, {count(self.connections, 'connection')}, {size(self.sent)} sent"


QUICK_ACK: int = getattr(socket, "TCP_QUICKACK", 0)  # 0: not on this system
_hosts: dict[str, Traffic] = {}


def host_traffic(host: str) -> Traffic:
    """The traffic of this process to the host of this name."""
    return _hosts.setdefault(host, Traffic())


class HostSocket(socket.socket):
    """A connected socket that counts sent bytes, and acknowledges received ones at once: sshd holds
    a reply back until the packets before it are acknowledged, and Linux delays that by 40 ms. The
    socket that it wraps is detached."""

    def __init__(self, sock: socket.socket, traffic: Traffic) -> None:
        seconds = sock.gettimeout()
        super().__init__(fileno=sock.detach())
        self.settimeout(seconds)
        self.traffic = traffic
        self.delays_acks = QUICK_ACK and self.family in (socket.AF_INET, socket.AF_INET6)

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Receive as a socket does, and set the option to acknowledge again: the kernel resets
        it."""
        data = super().recv(size, flags)
        if self.delays_acks:
            with contextlib.suppress(OSError):  # the other end has closed it
                self.setsockopt(socket.IPPROTO_TCP, QUICK_ACK, 1)
        return data

    def send(self, data: bytes, flags: int = 0, /) -> int:  # type: ignore[override]
        """Send as a socket does, and count."""
        sent = super().send(data, flags)
        self.traffic.sent += sent
        return sent
