"""Forwards a loopback port of a host to this computer, over the open SSH connection."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..errors import RailheadError
from .connection import PortClosed, PortsOff, Serve
from .session import ConnectionLost, Session


@contextlib.contextmanager
def forward_port(session: Session, serve: Serve) -> Iterator[int]:
    """Yields the port number; `serve` handles each connection to it here, in its own thread.

    Raises:
        RailheadError: the host's sshd does not forward ports, or the connection is lost.
    """
    with contextlib.ExitStack() as stack:
        try:
            port = stack.enter_context(session.connection.lend_port(serve))
        except PortClosed:
            raise ConnectionLost(f"the connection to {session.host} broke") from None
        except PortsOff:
            raise RailheadError(
                f"the sshd of {session.host} does not forward ports, which packages need",
                hint="AllowTcpForwarding yes in its sshd_config, and: systemctl reload ssh",
            ) from None
        yield port
