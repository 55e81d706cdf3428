"""A connection over paramiko, the fast transport: a login takes 2 to 4 ms of CPU."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import paramiko
from paramiko.common import OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
from paramiko.ssh_exception import ChannelException, SSHException

from ...inventory.hosts import Host
from ..connection import OPEN_SECONDS, PortClosed, PortsOff, Serve, Unresponsive

KEEPALIVE_SECONDS = 15
PORT_SECONDS = 15
LOOPBACK = ("127.0.0.1", "::1")


class ParamikoConnection:
    """The open connection to a host over the last of `clients`, one for each hop."""

    def __init__(
        self, host: Host, clients: Sequence[paramiko.SSHClient], close: Callable[[], None]
    ) -> None:
        self.host, self.clients, self.close = host, clients, close
        transport = clients[-1].get_transport()
        assert transport is not None
        self.transport: paramiko.Transport = transport
        transport.set_keepalive(KEEPALIVE_SECONDS)

    @property
    def host_key(self) -> paramiko.PKey:
        """The key of its sshd."""
        return self.transport.get_remote_server_key()

    @property
    def is_connected(self) -> bool:
        """Whether the connection is open."""
        return self.transport.is_active()

    def shell(self, command: str) -> paramiko.Channel:
        """A channel in which a command runs."""
        channel = self.transport.open_session(timeout=OPEN_SECONDS)
        with _closed_after(OPEN_SECONDS, self.host, channel):
            channel.exec_command(command)
        return channel

    def open_port(self, port: int) -> paramiko.Channel:
        """A channel to a loopback port of the host."""
        try:
            return self.transport.open_channel(
                "direct-tcpip", ("127.0.0.1", port), ("127.0.0.1", 0), timeout=PORT_SECONDS
            )
        except ChannelException as error:
            if error.code != OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED:
                raise PortClosed(error.text) from None
            raise PortsOff("prohibited") from None
        except (SSHException, EOFError, OSError) as error:  # the last two: the connection has ended
            raise PortClosed(str(error)) from None

    @contextlib.contextmanager
    def lend_port(self, serve: Serve) -> Iterator[int]:
        """Yields a loopback port of the host; `serve` handles its connections here."""

        def handle(channel: Any, origin: tuple[str, int], _: Any) -> None:
            if origin[0] not in LOOPBACK:  # with GatewayPorts, sshd accepts other machines, too
                channel.close()
                return
            threading.Thread(target=serve, args=(channel,), daemon=True).start()

        try:
            port = self.transport.request_port_forward("127.0.0.1", 0, handle)
        except SSHException as error:
            kind = PortsOff if self.transport.is_active() else PortClosed
            raise kind(str(error)) from None
        try:
            yield port
        finally:
            with contextlib.suppress(OSError, EOFError, SSHException):
                self.transport.cancel_port_forward("127.0.0.1", port)


@contextlib.contextmanager
def _closed_after(seconds: float, host: Host, channel: Any) -> Iterator[None]:
    """Close a channel if the host does not answer its request in time, and raise Unresponsive:
    paramiko would wait for ever."""
    late = threading.Event()

    def close() -> None:
        late.set()
        with contextlib.suppress(EOFError, OSError, SSHException):  # it has closed meanwhile
            channel.close()

    timer = threading.Timer(seconds, close)
    timer.daemon = True
    timer.start()
    try:
        yield
    except SSHException:
        if not late.is_set():
            raise
        raise Unresponsive(f"{host} did not start a shell within {seconds:.0f} s") from None
    finally:
        timer.cancel()
