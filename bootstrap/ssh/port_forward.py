"""Forwards a loopback port of a host to this computer, over the open SSH connection."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import paramiko
from paramiko.ssh_exception import SSHException

from ..errors import RailheadError
from .session import ConnectionLost, Session

Serve = Callable[[paramiko.Channel], None]
LOOPBACK = ("127.0.0.1", "::1")


@contextlib.contextmanager
def forward_port(session: Session, serve: Serve) -> Iterator[int]:
    """Yields the port number; `serve` handles each connection to it here, in its own thread.

    Raises:
        RailheadError: the host's sshd does not forward ports, or the connection is lost.
    """
    transport = session.connection.transport
    assert transport is not None

    def handle(channel: paramiko.Channel, origin: tuple[str, int], _: Any) -> None:
        if origin[0] not in LOOPBACK:  # with GatewayPorts, sshd accepts other machines, too
            channel.close()
            return
        threading.Thread(target=serve, args=(channel,), daemon=True).start()

    port = _request_port(session, transport, handle)
    try:
        yield port
    finally:
        with contextlib.suppress(OSError, EOFError, SSHException):
            transport.cancel_port_forward("127.0.0.1", port)


def _request_port(
    session: Session, transport: paramiko.Transport, handle: Callable[..., None]
) -> int:
    try:
        return transport.request_port_forward("127.0.0.1", 0, handle)
    except SSHException:
        if not transport.is_active():
            raise ConnectionLost(f"the connection to {session.host} broke") from None
        raise RailheadError(
            f"the sshd of {session.host} does not forward ports, which packages need",
            hint="AllowTcpForwarding yes in its sshd_config, and: systemctl reload ssh",
        ) from None
