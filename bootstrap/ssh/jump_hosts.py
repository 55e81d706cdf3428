"""The way to a host: its jumps as ssh_config names them, each pinned and bounded, and retried.

Fabric reads the user's ssh_config and holds each connection (paramiko is the transport).
"""

from __future__ import annotations

import contextlib
import logging
import random
import socket
import threading
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

from fabric import Config, Connection
from paramiko.ssh_exception import (
    AuthenticationException,
    ChannelException,
    NoValidConnectionsError,
    SSHException,
)

from bootstrap.console import log
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.ssh import traffic
from bootstrap.ssh.host_keys import ChangedHostKey, UnknownHostKey, alias, pin
from bootstrap.ssh.traffic import Counted, Traffic

# Its threads log what they raise, tracebacks and all; each error is told once, in our words.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

CONNECT_SECONDS = 10
BANNER_SECONDS = 20
LOST_SECONDS = 60  # without an answer of the other side's kernel the connection is broken
AT_ONCE = 8  # sshd's MaxStartups begins to drop connections at 10 that are not yet logged in
TRIES = 5


class JumpFailed(SSHException):
    """A jump host on the way could not be passed; `why` is its own error."""

    def __init__(self, hop: Connection, why: Exception) -> None:
        super().__init__(f"{hop.original_host}: {why}")
        self.jump = Host("jump", hop.host, user=hop.user, port=hop.port)
        self.name = str(hop.original_host)
        self.why = why


@cache
def _config() -> Config:
    return Config()


def connected(host: Host, inventory: Inventory) -> list[Connection]:
    """Open the way to `host`: its jumps in order, and last the connection to itself."""
    spent = traffic.to(host.name)
    hops = _way(host, inventory)
    for attempt in range(1, TRIES + 1):
        with _door(hops[0]):
            began = time.monotonic()
            try:
                return _open(hops, spent)
            except (OSError, EOFError, SSHException) as error:
                close_connection(hops)
                if attempt == TRIES or not _busy(error, time.monotonic() - began):
                    raise
        time.sleep(random.uniform(0.1, 0.3) * 2**attempt)
    raise AssertionError("unreachable")


def close_connection(hops: Sequence[Connection]) -> None:
    """Close every hop, the farthest first; also those that got no further than a login."""
    for hop in reversed(hops):
        with contextlib.suppress(Exception):
            hop.client.close()


def _way(host: Host, inventory: Inventory) -> list[Connection]:
    key = inventory.key_file
    only = {"key_filename": [key], "allow_agent": False, "look_for_keys": False} if key else {}
    hops = [_connection(host.address, host.user, host.port, **only)]
    hops[0].gateway = _gateway(hops[0])
    while isinstance(hops[0].gateway, Connection):
        hops.insert(0, hops[0].gateway)
    files = local_state.known_hosts_files(inventory.name)
    for hop in hops[:-1]:
        pin(hop, files)
    name = alias(host, inventory)
    pin(hops[-1], files[:1] if name else files, name)  # an address may have been another's before
    return hops


def _connection(name: str, user: str | None = None, port: int | None = None, **keys: Any) -> Any:
    bounds = {
        "banner_timeout": BANNER_SECONDS,
        "auth_timeout": BANNER_SECONDS,
        "channel_timeout": CONNECT_SECONDS,
    }
    return Connection(
        name,
        user=user,
        port=port,
        gateway=False,
        connect_timeout=BANNER_SECONDS + 5,  # until the keys are exchanged
        config=_config().clone(),
        connect_kwargs=bounds | keys,
    )


def _gateway(connection: Connection, behind: frozenset[str] = frozenset()) -> Any:
    """ProxyJump's last hop, or ProxyCommand's text; Fabric takes several jumps backwards.

    `Host *` with a ProxyJump names a way to the jump host itself, too: `behind` ends that.
    """
    jumps = connection.ssh_config.get("proxyjump")
    if not jumps:
        return connection.ssh_config.get("proxycommand")
    behind |= {connection.original_host}
    gateway: Any = None
    for name in [] if jumps.lower() == "none" else jumps.split(","):
        hop = _connection(name.strip())
        if hop.original_host in behind:
            return None
        hop.gateway = gateway or _gateway(hop, behind)
        gateway = hop
    return gateway


def _open(hops: Sequence[Connection], spent: Traffic) -> list[Connection]:
    for hop in hops:
        try:
            with log.timed(f"connect to {hop.user}@{hop.host}:{hop.port}"):
                if not hop.gateway:
                    hop.connect_kwargs["sock"] = Counted(_socket(hop), spent)
                spent.connections += 1
                hop.open()
        except (UnknownHostKey, ChangedHostKey):
            raise
        except (OSError, EOFError, SSHException) as error:
            raise error if hop is hops[-1] else JumpFailed(hop, error) from error
    return list(hops)


def _socket(hop: Connection) -> socket.socket:
    sock = socket.create_connection((hop.host, hop.port), CONNECT_SECONDS)
    # paramiko leaves Nagle's algorithm on; off, a login at 100 ms takes 0.2 s less.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LOST_SECONDS * 1000)
    return sock


_FINAL = (
    AuthenticationException,
    ChangedHostKey,
    ChannelException,
    NoValidConnectionsError,
    UnknownHostKey,
)


def _busy(error: Exception, seconds: float) -> bool:
    """Whether a sshd with too much to do hung up at once, so that another try may pass."""
    why = error.why if isinstance(error, JumpFailed) else error
    final = isinstance(why, _FINAL) or "authentication methods" in str(why)
    hung_up = isinstance(why, (EOFError, ConnectionResetError, SSHException))
    return hung_up and not final and seconds < CONNECT_SECONDS


_doors: dict[tuple[str, int], threading.Semaphore] = {}
_doors_lock = threading.Lock()


def _door(hop: Connection) -> threading.Semaphore:
    """At most AT_ONCE unfinished logins per sshd, or it drops some (MaxStartups)."""
    with _doors_lock:
        return _doors.setdefault((hop.host, hop.port), threading.Semaphore(AT_ONCE))
