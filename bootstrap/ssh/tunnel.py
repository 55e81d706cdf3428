"""A port of this computer that leads to a loopback port of a host, over the SSH connection."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from functools import partial

from paramiko.ssh_exception import SSHException

from ..errors import RailheadError, UsageError
from .connection import Channel, PortClosed, PortsOff, served
from .session import ConnectionLost, Session

PIECE = 1 << 16  # bytes


@contextlib.contextmanager
def tunnel(session: Session, port: int, local_port: int) -> Iterator[int]:
    """Listen on 127.0.0.1 here (port 0: a free one) and yield the port.

    Each connection goes to `port` of 127.0.0.1 on the host. Nothing listens after the block.

    Raises:
        UsageError: the local port is in use.
        ForwardingOff: the host's sshd does not forward ports.
    """
    _require_forwarding(session, port)
    try:
        listener = socket.create_server(("127.0.0.1", local_port))
    except OSError as error:
        raise UsageError(
            f"port {local_port} of this computer cannot be used ({error.strerror})",
            hint="the same command with --local-port 0   # a free one",
        ) from None
    with listener, served(listener, partial(_relay, session=session, port=port)):
        yield int(listener.getsockname()[1])


def require_open(session: Session) -> None:
    """ConnectionLost when the SSH connection has ended."""
    if not session.connection.is_connected:
        raise ConnectionLost(f"the connection to {session.host} broke")


class ForwardingOff(RailheadError):
    """The host's sshd does not forward ports, or not this one."""


def _require_forwarding(session: Session, port: int) -> None:
    """ForwardingOff if sshd forwards no connection to the port. Nothing has to listen there yet."""
    try:
        open_channel(session, port).close()
    except ForwardingOff:
        raise
    except RailheadError:
        return


def open_channel(session: Session, port: int) -> Channel:
    """A channel to a loopback port of the host.

    Raises:
        ForwardingOff: its sshd does not forward ports.
        RailheadError: nothing listens there, or the connection has ended.
    """
    try:
        return session.connection.open_port(port)
    except PortsOff:
        raise ForwardingOff(
            f"the sshd of {session.host.name} does not forward port {port}",
            hint="AllowTcpForwarding yes in its sshd_config, and: systemctl reload ssh",
        ) from None
    except PortClosed as error:
        raise RailheadError(f"port {port} of {session.host.name}: {error}") from None


def _relay(connection: socket.socket, session: Session, port: int) -> None:
    """Copy both ways until both ends have finished."""
    with connection:
        try:
            channel = open_channel(session, port)
        except RailheadError:
            return  # the client sees a closed connection
        with contextlib.closing(channel):
            back = threading.Thread(target=_copy, args=(channel, connection), daemon=True)
            back.start()
            _copy(connection, channel)
            back.join()


def _copy(source: Channel, sink: Channel) -> None:
    with contextlib.suppress(OSError, EOFError, SSHException):
        while data := source.recv(PIECE):
            sink.sendall(data)
    with contextlib.suppress(OSError, EOFError, SSHException):
        sink.shutdown(socket.SHUT_WR)
