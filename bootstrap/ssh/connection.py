"""The interface of a session's connection to its host, for all transports."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import paramiko

from ..errors import RailheadError

OPEN_SECONDS = 10
Channel = Any  # recv, send, sendall, settimeout, shutdown, close: a socket, or one of paramiko's
Serve = Callable[[Any], None]


@contextlib.contextmanager
def served(listener: socket.socket, serve: Serve) -> Iterator[None]:
    """In the block, `serve` handles the connections to a listener, each in a thread."""

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # ends the accepting thread
            listener.shutdown(socket.SHUT_RDWR)


class ConnectionLost(RailheadError):
    """The channel closed before the result came; what the host did is unknown."""


class Unresponsive(ConnectionLost):
    """The host is connected, but an operation exceeded its bounds. The channel is closed."""


class PortsOff(Exception):
    """The host's sshd does not forward ports, or not this one."""


class PortClosed(Exception):
    """Nothing listens at a port of the host, or the connection has ended."""


class Connection(Protocol):
    """An open connection to a host, whose key was verified."""

    @property
    def host_key(self) -> paramiko.PKey:
        """The host key that its sshd has presented."""

    @property
    def is_connected(self) -> bool:
        """Whether the connection is open."""

    def shell(self, command: str) -> Channel:
        """A channel in which the login shell runs a command."""

    def open_port(self, port: int) -> Channel:
        """A channel to a loopback port of the host.

        Raises:
            PortsOff, PortClosed.
        """

    def lend_port(self, serve: Serve) -> AbstractContextManager[int]:
        """Yields a loopback port of the host; `serve` handles each connection to it here, in its
        own thread.

        Raises:
            PortsOff, PortClosed.
        """

    def close(self) -> None:
        """Close the connection, and the connections to its jump hosts."""
