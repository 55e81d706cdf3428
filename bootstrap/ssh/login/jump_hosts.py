"""Connect to a host through the jump hosts that ssh_config names, over paramiko.

Every hop has a verified host key and a time limit. If an overloaded sshd drops a login, it is tried
again.
"""

from __future__ import annotations

import contextlib
import logging
import random
import socket
import time
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from paramiko.ssh_exception import (
    AuthenticationException,
    ChannelException,
    IncompatiblePeer,
    NoValidConnectionsError,
    SSHException,
)

from ...console import log
from ...inventory.hosts import Host
from ..host_keys import ChangedHostKey, Client, UnknownHostKey
from ..traffic import HostSocket, Traffic, host_traffic
from .hop import CONNECT_SECONDS, LOGIN_TRIES, Hop, login_slots
from .keys import Keys
from .paramiko_connection import ParamikoConnection
from .proxy_command import ProxyCommand
from .refusals import PENALTY, Penalised, one_first
from .ssh_config import HostConfig
from .transport import Transport

# paramiko's threads log every exception with its traceback; Railhead reports each error once.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

BANNER_SECONDS = 20
LOST_SECONDS = 60  # a connection without a TCP acknowledgement for this long is lost


class JumpHostFailed(SSHException):
    """The connection to a jump host failed; `cause` is its error."""

    def __init__(self, hop: HostConfig, cause: Exception) -> None:
        super().__init__(f"{hop.name}: {cause}")
        self.jump = Host("jump", hop.host, user=hop.user, port=hop.port)
        self.name = hop.name
        self.cause = cause


def log_in(host: Host, hops: Sequence[Hop], begun: float) -> ParamikoConnection:
    """Open the connections to the jump hosts of `host`, in order, and then the one to `host`. A
    jump host that has refused a login since `begun` (monotonic) is not tried again."""
    traffic = host_traffic(host.name)
    for attempt in range(1, LOGIN_TRIES + 1):
        with login_slots(hops[0].config):
            began = time.monotonic()
            try:
                return _open(host, hops, traffic, begun)
            except (OSError, EOFError, SSHException) as error:
                if attempt == LOGIN_TRIES or not _overloaded(error, time.monotonic() - began):
                    raise
        time.sleep(random.uniform(0.1, 0.3) * 2**attempt)
    raise AssertionError("unreachable")


def _close(clients: Sequence[Client], proxy: ProxyCommand | None) -> None:
    """Close every hop, the last one first, also if its login failed."""
    for client in reversed(clients):
        with contextlib.suppress(Exception):
            client.close()
    if proxy:
        proxy.close()


def _open(host: Host, hops: Sequence[Hop], traffic: Traffic, begun: float) -> ParamikoConnection:
    command = hops[0].config.proxy_command
    proxy = ProxyCommand(command) if command else None
    clients: list[Client] = []
    try:
        for hop in hops:
            try:
                is_jump = hop is not hops[-1]
                with one_first(hop.config, begun, _overloaded) if is_jump else nullcontext():
                    _log_in(hop, clients, proxy, traffic)
            except (UnknownHostKey, ChangedHostKey):
                raise
            except (OSError, EOFError, SSHException) as error:
                if proxy and len(clients) == 1:
                    proxy.check()
                raise error if hop is hops[-1] else JumpHostFailed(hop.config, error) from error
    except BaseException:
        _close(clients, proxy)
        raise
    return ParamikoConnection(host, clients, partial(_close, clients, proxy))


def _log_in(hop: Hop, clients: list[Client], proxy: ProxyCommand | None, traffic: Traffic) -> None:
    """Log in to the next hop, and append its client to `clients`."""
    config = hop.config
    client = Client(hop.pins)
    with log.timed(f"connect to {config.user}@{config.host}:{config.port}"):
        if clients:
            sock = _channel(clients[-1], config)
        else:
            sock = HostSocket(proxy.socket if proxy else _socket(config), traffic)
        traffic.connections += 1
        clients.append(client)
        try:
            client.connect(
                config.host,
                config.port,
                username=config.user,
                sock=sock,
                timeout=BANNER_SECONDS + 5,  # until the keys are exchanged
                banner_timeout=BANNER_SECONDS,
                auth_timeout=BANNER_SECONDS,
                channel_timeout=CONNECT_SECONDS,
                auth_strategy=Keys(config, hop.key_file),
                transport_factory=Transport,
            )
        except (OSError, EOFError, SSHException):
            greeting = getattr(client.get_transport(), "greeting", "")
            if PENALTY in greeting:
                raise Penalised(greeting.strip()) from None
            raise


def _channel(client: Client, config: HostConfig) -> Any:
    """A channel from a jump host to the sshd of the next hop."""
    transport = client.get_transport()
    assert transport is not None
    return transport.open_channel("direct-tcpip", (config.host, config.port), ("", 0))


def _socket(config: HostConfig) -> socket.socket:
    try:
        sock = socket.create_connection((config.host, config.port), CONNECT_SECONDS)
    except UnicodeError as error:  # a label of the name is empty, or has more than 63 characters
        raise socket.gaierror(str(error)) from None
    # paramiko leaves Nagle's algorithm on. Without it, a login at 100 ms round trip takes 0.2 s
    # less.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LOST_SECONDS * 1000)
    return sock


_FINAL = (
    AuthenticationException,
    ChangedHostKey,
    ChannelException,
    IncompatiblePeer,
    NoValidConnectionsError,
    Penalised,
    UnknownHostKey,
)


def _overloaded(error: Exception, seconds: float) -> bool:
    """Whether an overloaded sshd closed the connection at once, so that another try may succeed."""
    cause = error.cause if isinstance(error, JumpHostFailed) else error
    closed = isinstance(cause, (EOFError, ConnectionResetError, SSHException))
    return closed and not isinstance(cause, _FINAL) and seconds < CONNECT_SECONDS
