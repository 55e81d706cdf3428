"""Connect to a host through the jump hosts that ssh_config names, over paramiko.

Every hop has a verified host key and a time limit; a login that an overloaded sshd drops is tried
again.
"""

from __future__ import annotations

import contextlib
import logging
import random
import re
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import paramiko
from paramiko.ssh_exception import (
    AuthenticationException,
    ChannelException,
    IncompatiblePeer,
    NoValidConnectionsError,
    SSHException,
)

from railhead.documents.lazy import dataclass

from ...console import log
from ...inventory.hosts import Host, Inventory
from ...inventory.local_state import known_hosts_files
from ..connection import OPEN_SECONDS
from ..host_keys import ChangedHostKey, Client, Pins, UnknownHostKey, is_pinned_by_name
from ..traffic import CountingSocket, Traffic, host_traffic
from . import ssh_config
from .keys import Keys, Transport
from .proxy_command import ProxyCommand
from .refusals import PENALTY, Penalised, one_first
from .ssh_config import HostConfig

# paramiko's threads log every exception with its traceback; Railhead reports each error once.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

CONNECT_SECONDS = 10
BANNER_SECONDS = 20
LOST_SECONDS = 60  # a connection without a TCP acknowledgement for this long is lost
KEEPALIVE_SECONDS = 15
MAX_LOGINS = 8  # concurrent logins per sshd, which drops some from 10 on (MaxStartups)
LOGIN_TRIES = 5
_JUMP = re.compile(
    r"(?:ssh://)?(?:(?P<user>.+)@)?(?:\[(?P<v6>[^\]]+)\]|(?P<name>[^:]+))(?::(?P<port>\d+))?/?"
)


class JumpHostFailed(SSHException):
    """The connection to a jump host failed; `cause` is its error."""

    def __init__(self, hop: HostConfig, cause: Exception) -> None:
        super().__init__(f"{hop.name}: {cause}")
        self.jump = Host("jump", hop.host, user=hop.user, port=hop.port)
        self.name = hop.name
        self.cause = cause


@dataclass(frozen=True)
class Hop:
    """One sshd on the way: how it is reached, and the host keys and the login that are right."""

    config: HostConfig
    pins: Pins
    key_file: str | None = None


class ParamikoConnection:
    """The open connection to a host; the clients of the hops are in order."""

    def __init__(self, clients: Sequence[Client], proxy: ProxyCommand | None) -> None:
        self.clients, self._proxy = clients, proxy
        transport = clients[-1].get_transport()
        assert transport is not None
        self.transport: paramiko.Transport = transport
        transport.set_keepalive(KEEPALIVE_SECONDS)
        self.host_key: paramiko.PKey = transport.get_remote_server_key()

    @property
    def is_connected(self) -> bool:
        """Whether the connection is open."""
        return self.transport.is_active()

    def open_session(self) -> Any:
        """A channel for one command."""
        return self.transport.open_session(timeout=OPEN_SECONDS)

    def close(self) -> None:
        """Close the connection, and those to the jump hosts."""
        _close(self.clients, self._proxy)


def open_connection(host: Host, inventory: Inventory) -> ParamikoConnection:
    """Open the connections to the jump hosts of `host`, in order, and then the one to `host`."""
    traffic = host_traffic(host.name)
    hops = way(host, inventory)
    since = time.monotonic()
    for attempt in range(1, LOGIN_TRIES + 1):
        with _login_slots(hops[0].config):
            began = time.monotonic()
            try:
                return _open(hops, traffic, since)
            except (OSError, EOFError, SSHException) as error:
                if attempt == LOGIN_TRIES or not _overloaded(error, time.monotonic() - began):
                    raise
        time.sleep(random.uniform(0.1, 0.3) * 2**attempt)
    raise AssertionError("unreachable")


def _close(clients: Sequence[Client], proxy: ProxyCommand | None) -> None:
    """Close every hop, the last one first; also those whose login did not succeed."""
    for client in reversed(clients):
        with contextlib.suppress(Exception):
            client.close()
    if proxy:
        proxy.close()


def way(host: Host, inventory: Inventory) -> list[Hop]:
    """The hops to a host: its jump hosts, and itself."""
    config = config_of(host)
    hops = [
        Hop(jump, Pins((*known_hosts_files(inventory.name), *jump.known_hosts), jump.alias or None))
        for jump in _jumps(config)
    ]
    return [*hops, Hop(config, pins_of(host, inventory), key_file_here(inventory))]


def config_of(host: Host) -> HostConfig:
    """What ssh_config says about a host."""
    return ssh_config.resolve(host.address, host.user, host.port)


def key_file_here(inventory: Inventory) -> str | None:
    """The private key of the cluster's creator, where this computer has it; a colleague has their
    own keys."""
    path = inventory.key_file
    return path if path and Path(path).exists() else None


def pins_of(host: Host, inventory: Inventory) -> Pins:
    """Where the keys of a host of this inventory are pinned.

    A machine in a cloud gets another address at a restart, and another machine may have had its
    address before: its host name is used, and only the cluster's own file counts.
    """
    files = known_hosts_files(inventory.name)
    if is_pinned_by_name(host, inventory):
        return Pins(files[:1], host.name)
    config = config_of(host)
    return Pins(tuple(dict.fromkeys((*files, *config.known_hosts))), config.alias or None)


def port_of(host: Host) -> int:
    """The port of a host's sshd, which may be in ssh_config."""
    return config_of(host).port


def _jumps(config: HostConfig, visited: frozenset[str] = frozenset()) -> list[HostConfig]:
    """The jump hosts on the way to a host. The way to the first one is that of its own settings.

    `Host *` with a ProxyJump applies to the jump host, too: `visited` ends that recursion.
    """
    visited |= {config.name}
    hops: list[HostConfig] = []
    for text in config.jumps:
        hop = _jump(text)
        if hop.name in visited:
            return []
        hops = [*hops, hop] if hops else [*_jumps(hop, visited), hop]
    return hops


def _jump(text: str) -> HostConfig:
    """A jump host, [user@]host[:port], of which ssh has checked the form."""
    parts = _JUMP.fullmatch(text)
    name = (parts["v6"] or parts["name"]) if parts else text
    port = int(parts["port"]) if parts and parts["port"] else None
    return ssh_config.resolve(name, parts["user"] if parts else None, port)


def _open(hops: Sequence[Hop], traffic: Traffic, since: float) -> ParamikoConnection:
    command = hops[0].config.proxy_command
    proxy = ProxyCommand(command) if command else None
    clients: list[Client] = []
    try:
        for hop in hops:
            try:
                is_jump = hop is not hops[-1]
                with one_first(hop.config, since, _overloaded) if is_jump else nullcontext():
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
    return ParamikoConnection(clients, proxy)


def _log_in(hop: Hop, clients: list[Client], proxy: ProxyCommand | None, traffic: Traffic) -> None:
    """Log in to the next hop, and add its client to those of the hops before."""
    config = hop.config
    client = Client(hop.pins)
    with log.timed(f"connect to {config.user}@{config.host}:{config.port}"):
        if clients:
            sock = _channel(clients[-1], config)
        else:
            sock = CountingSocket(proxy.socket if proxy else _socket(config), traffic)
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
    except UnicodeError as error:  # a part of the name is empty, or longer than 63 characters
        raise socket.gaierror(str(error)) from None
    # paramiko leaves Nagle's algorithm on; off, a login at 100 ms takes 0.2 s less.
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


_slots: dict[tuple[str, int], threading.Semaphore] = {}
_slots_lock = threading.Lock()


def _login_slots(config: HostConfig) -> threading.Semaphore:
    """The semaphore of one sshd: at most MAX_LOGINS unfinished logins at once."""
    with _slots_lock:
        return _slots.setdefault((config.host, config.port), threading.Semaphore(MAX_LOGINS))
