"""The only SSH: a session per host, opened with pinned keys, bounded and retried.

Fabric reads the user's ssh_config and holds the connection (paramiko is the transport).
`everywhere` asks all hosts at once, waits for all and reports all.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

from fabric import Config, Connection
from paramiko.ssh_exception import (
    AuthenticationException,
    BadHostKeyException,
    NoValidConnectionsError,
    SSHException,
)

from bootstrap import record
from bootstrap.errors import HostsFailed, HostsNotReady, RailheadError, UsageError
from bootstrap.facts import HostFacts
from bootstrap.inventory import Host, Inventory
from bootstrap.pins import UnknownHostKey, fingerprint, pin
from bootstrap.session import Session

T = TypeVar("T")
CONNECT_SECONDS = 10
AT_ONCE = 8  # sshd's MaxStartups begins to drop connections at 10 that are not yet logged in
TRIES = 5


@cache
def _config() -> Config:
    return Config()


def _connection(host: Host, inventory: Inventory) -> Connection:
    kwargs: dict[str, Any] = {"banner_timeout": 20, "auth_timeout": 20}
    if inventory.key_file:
        kwargs |= {
            "key_filename": [inventory.key_file],
            "allow_agent": False,
            "look_for_keys": False,
        }
    connection = Connection(
        host.address,
        user=host.user,
        port=host.port,
        config=_config().clone(),
        connect_timeout=CONNECT_SECONDS,
        connect_kwargs=kwargs,
    )
    pin(connection, record.known_hosts_files(inventory.name))
    return connection


def _first_hop(connection: Connection) -> Connection:
    hop: Connection = connection
    while isinstance(hop.gateway, Connection):
        hop = hop.gateway
    return hop


_doors: dict[tuple[str, int], threading.Semaphore] = {}
_doors_lock = threading.Lock()


def _door(connection: Connection) -> threading.Semaphore:
    """At most AT_ONCE unfinished logins per sshd, or it drops some (MaxStartups)."""
    hop = _first_hop(connection)
    with _doors_lock:
        return _doors.setdefault((hop.host, hop.port), threading.Semaphore(AT_ONCE))


def _open(host: Host, inventory: Inventory) -> Session:
    connection = _connection(host, inventory)
    for attempt in range(TRIES):
        try:
            with _door(connection):
                if not connection.gateway:
                    connection.connect_kwargs["sock"] = _socket(connection)
                connection.open()
                return Session(host, connection)
        except (EOFError, ConnectionResetError, SSHException) as error:
            # A sshd that is too busy hangs up before its banner or within the key exchange.
            if isinstance(error, _FINAL) or attempt == TRIES - 1:
                raise
            time.sleep(random.uniform(0.2, 0.6) * 2**attempt)
    raise AssertionError("unreachable")


_FINAL = (AuthenticationException, BadHostKeyException, UnknownHostKey, NoValidConnectionsError)


def _socket(connection: Connection) -> socket.socket:
    # paramiko leaves Nagle's algorithm on; off, a login at 100 ms takes 0.2 s less.
    sock = socket.create_connection((connection.host, connection.port), CONNECT_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def why_not(host: Host, error: Exception) -> str:
    """For a person: why `host` could not be reached, and what to do about it."""
    for kind, tell in _REASONS:
        if isinstance(error, kind):
            return tell(host, error)
    if "authentication methods" in str(error):
        return _no_key(host, error)
    return str(error) if isinstance(error, RailheadError) else f"{type(error).__name__}: {error}"


def _unknown(host: Host, error: Any) -> str:
    shown = f"{error.key.get_name()} {fingerprint(error.key)}"
    return f"unknown host key {shown}\nnext: fab trust --hosts {host}"


def _changed(host: Host, error: Any) -> str:
    shown = f"REFUSED: its host key changed to {fingerprint(error.key)}; it may be another machine"
    return f"{shown}\nnext, if you know why: ssh-keygen -R {_key_name(error.hostname, host)}"


def _no_key(host: Host, error: Any) -> str:
    said = "none of your keys is accepted (no password is asked for)"
    return f"{said}\nnext: ssh-copy-id {_dest(host)}"


def _no_name(host: Host, error: Any) -> str:
    return f"the name {host.address!r} does not resolve"


def _silent(host: Host, error: Any) -> str:
    return f"no answer within {CONNECT_SECONDS} s: does it run, is port {host.port or 22} open?"


def _refused(host: Host, error: Any) -> str:
    return f"refused: no sshd answers on port {host.port or 22}"


_REASONS: tuple[tuple[Any, Callable[[Host, Any], str]], ...] = (
    (UnknownHostKey, _unknown),
    (BadHostKeyException, _changed),
    (AuthenticationException, _no_key),
    (socket.gaierror, _no_name),
    (TimeoutError, _silent),
    ((ConnectionRefusedError, NoValidConnectionsError), _refused),
)


def _dest(host: Host) -> str:
    user = f"{host.user}@" if host.user else ""
    return (f"-p {host.port} " if host.port else "") + user + host.address


def _key_name(hostname: str, host: Host) -> str:
    return f"'[{hostname}]:{host.port}'" if host.port and host.port != 22 else hostname


@contextlib.contextmanager
def sessions(inventory: Inventory) -> Iterator[dict[str, Session]]:
    """Connect to every host of the inventory; closes all at the end.

    Raises:
        HostsNotReady: one or more could not be reached; every host's outcome is told.
    """
    opened, failed = reach(inventory)
    try:
        if failed:
            raise HostsNotReady(
                f"{len(failed)} of {len(inventory.hosts)} hosts cannot be reached",
                tell(inventory, failed),
                hint="fab demo   # starts the local hosts" if inventory.cloud == "local" else "",
            )
        yield opened
    finally:
        for session in opened.values():
            session.close()


def tell(inventory: Inventory, failed: Mapping[str, Exception]) -> dict[str, str]:
    """A word for every host: "ok", or why it could not be reached."""
    return {
        h.name: why_not(h, failed[h.name]) if h.name in failed else "ok" for h in inventory.hosts
    }


def reach(inventory: Inventory) -> tuple[dict[str, Session], dict[str, Exception]]:
    """Connect to all; returns the sessions, and for each host that failed the error."""
    opened: dict[str, Session] = {}
    failed: dict[str, Exception] = {}

    def one(host: Host) -> None:
        try:
            opened[host.name] = _open(host, inventory)
        except (OSError, EOFError, SSHException, RailheadError) as error:
            failed[host.name] = error

    _all(one, inventory.hosts)
    return {h.name: opened[h.name] for h in inventory.hosts if h.name in opened}, failed


def everywhere(
    opened: Mapping[str, Session],
    work: Callable[[Session], T],
    *,
    what: str,
    error: type[HostsFailed] = HostsFailed,
) -> dict[str, T]:
    """Do `work` on all hosts at once and wait for all.

    Raises:
        HostsFailed: it failed on some host; every host's outcome is told.
    """
    done: dict[str, T] = {}
    failed: dict[str, RailheadError] = {}

    def one(session: Session) -> None:
        try:
            done[session.host.name] = work(session)
        except RailheadError as wrong:
            failed[session.host.name] = wrong

    _all(one, list(opened.values()))
    if failed:
        told = {name: str(failed[name]) if name in failed else "ok" for name in opened}
        kind = HostsNotReady if all(isinstance(e, UsageError) for e in failed.values()) else error
        raise kind(f"{what} failed on {len(failed)} of {len(told)} hosts", told)
    return {name: done[name] for name in opened}


def _all(work: Callable[[Any], None], items: Sequence[Any]) -> None:
    with ThreadPoolExecutor(max_workers=max(1, len(items))) as pool:
        futures = [pool.submit(work, item) for item in items]
        for future in futures:
            future.result()


def all_facts(opened: Mapping[str, Session]) -> dict[str, HostFacts]:
    """Every host's facts, in the inventory's order."""
    return everywhere(opened, Session.facts, what="reading facts", error=HostsNotReady)
