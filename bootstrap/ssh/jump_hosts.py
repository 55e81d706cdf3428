"""Connect to a host through the jump hosts that ssh_config names.

Every hop has a verified host key and a time limit; a login that an overloaded sshd drops is tried
again. Fabric reads the user's ssh_config and holds each connection (paramiko is the transport).
"""

from __future__ import annotations

import contextlib
import getpass
import logging
import os
import random
import re
import shlex
import socket
import threading
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fabric import Connection
from paramiko.agent import AgentSSH
from paramiko.ssh_exception import (
    AuthenticationException,
    ChannelException,
    NoValidConnectionsError,
    SSHException,
)

from ..console import log
from ..errors import UsageError
from ..inventory.hosts import Host, Inventory
from ..inventory.local_state import known_hosts_files
from ..inventory.ssh_config import SshConfig
from .host_keys import (
    ChangedHostKey,
    Pins,
    UnknownHostKey,
    is_pinned_by_name,
    verify_host_key,
)
from .traffic import CountingSocket, Traffic, host_traffic

# paramiko's threads log every exception with its traceback; Railhead reports each error once.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

CONNECT_SECONDS = 10
BANNER_SECONDS = 20
LOST_SECONDS = 60  # a connection without a TCP acknowledgement for this long is lost
MAX_LOGINS = 8  # concurrent logins per sshd, which drops some from 10 on (MaxStartups)
LOGIN_TRIES = 5


class JumpHostFailed(SSHException):
    """The connection to a jump host failed; `cause` is its error."""

    def __init__(self, hop: Connection, cause: Exception) -> None:
        super().__init__(f"{hop.original_host}: {cause}")
        self.jump = Host("jump", hop.host, user=hop.user, port=hop.port)
        self.name = str(hop.original_host)
        self.cause = cause


class IdentityAgent(AgentSSH):
    """The ssh-agent at a socket, opened when its keys are needed; without keys if none answers."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def get_keys(self) -> tuple[Any, ...]:
        """Its keys, for paramiko."""
        if self._conn is None:  # type: ignore[attr-defined]
            agent = socket.socket(socket.AF_UNIX)
            try:
                agent.connect(self._path)
            except OSError:
                agent.close()
                return ()
            self._connect(agent)  # type: ignore[attr-defined]
        return tuple(super().get_keys())

    def close(self) -> None:
        """Close the connection to the agent."""
        self._close()  # type: ignore[attr-defined]


@cache
def _config() -> SshConfig:
    return SshConfig()


def open_connections(host: Host, inventory: Inventory) -> list[Connection]:
    """Open the connections to the jump hosts of `host`, in order, and then the one to `host`."""
    traffic = host_traffic(host.name)
    hops = _hops(host, inventory)
    for attempt in range(1, LOGIN_TRIES + 1):
        with _login_slots(hops[0]):
            began = time.monotonic()
            try:
                return _open(hops, traffic)
            except (OSError, EOFError, SSHException) as error:
                close_connections(hops)
                if attempt == LOGIN_TRIES or not _overloaded(error, time.monotonic() - began):
                    raise
        time.sleep(random.uniform(0.1, 0.3) * 2**attempt)
    raise AssertionError("unreachable")


def close_connections(hops: Sequence[Connection]) -> None:
    """Close every hop, the last one first; also those whose login did not succeed."""
    for hop in reversed(hops):
        with contextlib.suppress(Exception):
            hop.client.close()


def _hops(host: Host, inventory: Inventory) -> list[Connection]:
    """The connections to open, none of them open yet."""
    hops = [_connection(host.address, host.user, host.port, key_file_here(inventory))]
    hops[0].gateway = _gateway(hops[0])
    while isinstance(hops[0].gateway, Connection):
        hops.insert(0, hops[0].gateway)
    pins = pins_of(host, inventory)
    verify_host_key(hops[-1], pins)
    for hop in hops[:-1]:
        verify_host_key(hop, Pins(known_hosts_files(inventory.name)))
    return hops


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
    return Pins(files[:1], host.name) if is_pinned_by_name(host, inventory) else Pins(files)


def _connection(
    name: str, user: str | None = None, port: int | str | None = None, key_file: str | None = None
) -> Any:
    only = {"key_filename": [key_file], "allow_agent": False, "look_for_keys": False}
    try:
        return Connection(
            name,
            user=user,
            port=int(port) if port else None,
            gateway=False,
            connect_timeout=BANNER_SECONDS + 5,  # until the keys are exchanged
            config=_config().clone(),
            connect_kwargs={
                "banner_timeout": BANNER_SECONDS,
                "auth_timeout": BANNER_SECONDS,
                "channel_timeout": CONNECT_SECONDS,
                **(only if key_file else {}),
            },
        )
    except (KeyError, ValueError) as error:  # of a port or a switch
        raise UsageError(
            f"ssh_config has a value for {name} that is not valid: {error}",
            hint=shlex.join(["ssh", "-G", name]),
        ) from None


def port_of(host: Host) -> int:
    """The port of a host's sshd, which may be in ssh_config."""
    return int(_connection(host.address, port=host.port).port)


def _gateway(connection: Connection, visited: frozenset[str] = frozenset()) -> Any:
    """ProxyJump's last hop, or ProxyCommand's text. Read here: Fabric reverses several jumps.

    `Host *` with a ProxyJump applies to the jump host, too: `visited` ends that recursion.
    """
    jumps = connection.ssh_config.get("proxyjump")
    if not jumps:
        return connection.ssh_config.get("proxycommand")
    visited |= {connection.original_host}
    gateway: Any = None
    for name in [] if jumps.lower() == "none" else jumps.split(","):
        hop = _jump(name)
        if hop.original_host in visited:
            return None
        hop.gateway = gateway or _gateway(hop, visited)
        gateway = hop
    return gateway


def _jump(text: str) -> Any:
    """The connection to a jump host: [user@]host[:port], also after ssh://."""
    text = text.strip()
    if text.startswith("ssh://"):
        text = text.removeprefix("ssh://").removesuffix("/")
    user, _, place = text.rpartition("@")
    if not place.startswith("["):
        return _connection(text)
    address, _, port = place[1:].partition("]")
    return _connection(address, user or None, port.removeprefix(":"))


def _open(hops: Sequence[Connection], traffic: Traffic) -> list[Connection]:
    for hop in hops:
        try:
            with log.timed(f"connect to {hop.user}@{hop.host}:{hop.port}"):
                if not hop.gateway:
                    hop.connect_kwargs["sock"] = CountingSocket(_socket(hop), traffic)
                traffic.connections += 1
                hop.client._agent = _identity_agent(hop)
                hop.open()
        except (UnknownHostKey, ChangedHostKey):
            raise
        except (OSError, EOFError, SSHException) as error:
            raise error if hop is hops[-1] else JumpHostFailed(hop, error) from error
    return list(hops)


def _identity_agent(hop: Connection) -> IdentityAgent | None:
    """The agent that ssh_config names for this login; None: that of SSH_AUTH_SOCK."""
    value = hop.ssh_config.get("identityagent", "SSH_AUTH_SOCK")
    if value == "SSH_AUTH_SOCK":
        return None
    if value.lower() == "none":
        return IdentityAgent(os.devnull)  # where no agent answers
    path = os.path.expanduser(value)  # noqa: PTH111 # an unknown ~user is not an error
    tokens = _tokens(hop)
    path = re.sub("%(.)", lambda token: tokens.get(token[1], token[0]), path)
    return IdentityAgent(os.path.expandvars(path))


def _tokens(hop: Connection) -> dict[str, str]:
    """What the tokens of ssh_config stand for. paramiko replaces them only in some settings."""
    here = socket.gethostname()
    return {
        "%": "%",
        "d": str(Path.home()),
        "h": hop.host,
        "i": str(os.getuid()),
        "L": here.partition(".")[0],
        "l": here,
        "n": hop.original_host,
        "p": str(hop.port),
        "r": hop.user,
        "u": getpass.getuser(),
    }


def _socket(hop: Connection) -> socket.socket:
    try:
        sock = socket.create_connection((hop.host, hop.port), CONNECT_SECONDS)
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
    NoValidConnectionsError,
    UnknownHostKey,
)


def _overloaded(error: Exception, seconds: float) -> bool:
    """Whether an overloaded sshd closed the connection at once, so that another try may succeed."""
    cause = error.cause if isinstance(error, JumpHostFailed) else error
    final = isinstance(cause, _FINAL) or "authentication methods" in str(cause)
    closed = isinstance(cause, (EOFError, ConnectionResetError, SSHException))
    return closed and not final and seconds < CONNECT_SECONDS


_slots: dict[tuple[str, int], threading.Semaphore] = {}
_slots_lock = threading.Lock()


def _login_slots(hop: Connection) -> threading.Semaphore:
    """The semaphore of one sshd: at most MAX_LOGINS unfinished logins at once."""
    with _slots_lock:
        return _slots.setdefault((hop.host, hop.port), threading.Semaphore(MAX_LOGINS))
