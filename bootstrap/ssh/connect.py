"""Opens all SSH sessions, one per host; explains why a host cannot be reached; starts agents.

`everywhere` runs a function on all hosts at once, waits for all and reports all.
"""

from __future__ import annotations

import shlex
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from paramiko.ssh_exception import (
    AuthenticationException,
    ChannelException,
    IncompatiblePeer,
    NoValidConnectionsError,
    SSHException,
)

from ..console import interrupts
from ..console.text import count
from ..console.threads import side_by_side
from ..errors import Command, HostsFailed, HostsNotReady, RailheadError, UsageError
from ..facts.host import HostFacts
from ..inventory.files import hosts_of_file
from ..inventory.hosts import Host, Inventory
from .host_keys import ChangedHostKey, RevokedHostKey, UnknownHostKey, fingerprint
from .login.choice import open_connection, open_for_key
from .login.hop import CONNECT_SECONDS
from .login.jump_hosts import JumpHostFailed
from .login.keys import NotAccepted
from .login.openssh import OpenSshFailed
from .login.refusals import WAIT_SECONDS, Penalised
from .login.route import port_of, way
from .session import Session

T = TypeVar("T")
STARTING = "starting the agent"
ONLY_ONE_KEY = "next, for this host in ~/.ssh/config: IdentityFile KEY.pub and IdentitiesOnly yes"


def _open(host: Host, inventory: Inventory, keys_only: bool, begun: float) -> Session:
    open_ = open_for_key if keys_only else open_connection
    connection = open_(host, way(host, inventory), begun)
    try:
        return Session(host, connection)
    except BaseException:
        connection.close()
        raise


def failure_reason(host: Host, error: Exception) -> str:
    """The message for the user: why `host` cannot be reached, and the next command."""
    for kind, describe in _REASONS:
        if isinstance(error, kind):
            return describe(host, error)
    for text, describe in _TEXTS.items():
        if text in str(error):
            return describe(host, error)
    return str(error) if isinstance(error, RailheadError) else f"{type(error).__name__}: {error}"


def _unknown(host: Host, error: Any) -> str:
    shown = f"{error.hostname} {error.key.get_name()} {fingerprint(error.key)}"
    if host.host_key_source:
        return f"REFUSED, its cloud does not confirm this key: {shown}"
    return f"unknown host key: {shown}\nnext: {Command('trust', hosts=host)}"


def _changed(host: Host, error: Any) -> str:
    shown = f"{error.hostname} is now {error.key.get_name()} {fingerprint(error.key)}"
    forget = shlex.join(["ssh-keygen", "-R", error.hostname, "-f", str(error.file)])
    text = f"REFUSED, its host key changed: {shown}; it may be another machine"
    if host.host_key_source == "injected":  # the next connection pins the injected key again
        return f"{text}\nif it was used from another computer first, copy that one's {error.file}"
    return f"{text}\nnext, if you know why: {forget}"


def _revoked(host: Host, error: Any) -> str:
    shown = f"{error.hostname} {error.key.get_name()} {fingerprint(error.key)}"
    return f"REFUSED, its host key is revoked in {error.file}: {shown}"


def _no_key(host: Host, error: Any) -> str:
    if error.unreadable:
        return _unreachable(host, error.unreadable)
    printed = f": {error.printed}" if error.printed else ""
    if error.closed and error.count > 1:
        text = f"it closed the connection after {count(error.count, 'key')}{printed}"
        return f"{text}\nare there too many keys in your ssh-agent? {ONLY_ONE_KEY}"
    if error.closed:
        return f"it closed the connection before the login{printed}"
    if error.partial:
        wanted = " or ".join(sorted(error.methods))
        return f"your key is accepted, and then it wants {wanted}, which needs a terminal"
    if error.locked:
        text = f"{error.locked[0]} has a passphrase, and no ssh-agent holds it"
        return f"{text}\nnext: {shlex.join(['ssh-add', str(error.locked[0])])}"
    if error.others:
        text = f"{error.others[0]} is of a kind that only an ssh-agent can use here"
        return f"{text}\nnext: {shlex.join(['ssh-add', str(error.others[0])])}"
    if error.methods and all("gssapi" in method for method in error.methods):
        return (
            "it accepts Kerberos alone, and you have no ticket, or GSSAPIAuthentication is off"
            f"{printed}\nnext: kinit"
        )
    text = f"none of your keys is accepted (passwords are not used){printed}"
    if host.id:
        add = Command("ssh-key", "YOUR_KEY.pub")
        return f"{text}\nnext, on the computer of somebody who can log in: {add}"
    return f"{text}\nnext: {shlex.join(['ssh-copy-id', *_dest(host)])}"


def _penalised(host: Host, error: Any) -> str:
    return (
        f"its sshd accepts no connection from this address for a while: {error}\nnext: wait "
        f"{WAIT_SECONDS} seconds; too many connections did not log in (PerSourcePenalties)"
    )


def _no_algorithm(host: Host, error: Any) -> str:
    text = f"its sshd and this computer have no algorithm in common: {error}"
    return f"{text}\nnext: {shlex.join(['ssh', '-vv', *_dest(host)])}   # shows what both offer"


def _unresolved(host: Host, error: Any) -> str:
    file = hosts_of_file(host.address)
    return f"the name {host.address!r} does not resolve" + (f"\nnext: {file}" if file else "")


def _timed_out(host: Host, error: Any) -> str:
    return f"no answer within {CONNECT_SECONDS} s: does it run, is port {port_of(host)} open?"


def _refused(host: Host, error: Any) -> str:
    return f"refused: no sshd answers on port {port_of(host)}"


def _unreachable(host: Host, error: Any) -> str:
    if error.filename:  # a private key, not the network
        return f"{error.filename} on this computer cannot be read: {error.strerror}"
    return f"{error.strerror or error}: does it run, is its network reachable?"


def _no_banner(host: Host, error: Any) -> str:
    port = port_of(host)
    return f"port {port} is open, but no sshd answers there: frozen, too busy, or something else"


def _no_shell(host: Host, error: Any) -> str:
    return (
        "its sshd accepts the login but starts no shell: frozen, too busy, or your account has none"
    )


def _jump_refused(host: Host, error: Any) -> str:
    return f"its jump host cannot connect to {host.address} port {port_of(host)}: {error}"


def _jump(host: Host, error: Any) -> str:
    return f"its jump host {error.name}: {failure_reason(error.jump, error.cause)}"


_REASONS: tuple[tuple[Any, Callable[[Host, Any], str]], ...] = (
    (JumpHostFailed, _jump),
    (UnknownHostKey, _unknown),
    (RevokedHostKey, _revoked),  # before its base class ChangedHostKey
    (ChangedHostKey, _changed),
    (NotAccepted, _no_key),
    (Penalised, _penalised),
    (IncompatiblePeer, _no_algorithm),
    (socket.gaierror, _unresolved),
    (TimeoutError, _timed_out),
    ((ConnectionRefusedError, NoValidConnectionsError), _refused),
    (ChannelException, _jump_refused),
    (OSError, _unreachable),
)
# paramiko has no exception class for these; the text of the error identifies them.
_TEXTS: dict[str, Callable[[Host, Any], str]] = {
    "protocol banner": _no_banner,
    "Timeout opening channel": _timed_out,
    "Channel closed": _no_shell,
}


def is_out_of_reach(error: Exception) -> bool:
    """Whether the network or the host is the cause, not a key or an account: the same command may
    work later."""
    if isinstance(error, JumpHostFailed):
        return is_out_of_reach(error.cause)
    if isinstance(error, OpenSshFailed):
        return error.out_of_reach
    final = (UnknownHostKey, ChangedHostKey, AuthenticationException, IncompatiblePeer)
    if isinstance(error, (*final, RailheadError)):
        return False
    return not getattr(error, "filename", None)


def _dest(host: Host) -> list[str]:
    user = f"{host.user}@" if host.user else ""
    return [*(["-p", str(host.port)] if host.port else []), user + host.address]


class Sessions(dict[str, Session]):
    """The open sessions with the hosts of `inventory`, by host name and in its order; `failed` has
    the errors of the hosts that could not be reached.

    A context manager: at the end all sessions are closed, also those that replaced others.
    """

    def __init__(
        self,
        inventory: Inventory,
        opened: Mapping[str, Session],
        failed: Mapping[str, Exception] | None = None,
    ) -> None:
        super().__init__((name, opened[name]) for name in inventory.names if name in opened)
        self.inventory = inventory
        failed = failed or {}
        self.failed = {name: failed[name] for name in inventory.names if name in failed}

    @property
    def chief(self) -> Session:
        """The session with the chief."""
        return self[self.inventory.chief.name]

    @property
    def reasons(self) -> dict[str, str]:
        """Why hosts could not be reached, for the user; empty if all were reached."""
        hosts = (host for host in self.inventory.hosts if host.name in self.failed)
        return {host.name: failure_reason(host, self.failed[host.name]) for host in hosts}

    @property
    def outcomes(self) -> dict[str, str]:
        """Each host's outcome: "ok", or the reason why it could not be reached."""
        return dict.fromkeys(self.inventory.names, "ok") | self.reasons

    @property
    def out_of_reach(self) -> bool:
        """Whether every host that was not reached may be reached later."""
        return all(map(is_out_of_reach, self.failed.values()))

    def drop(self, errors: Mapping[str, Exception]) -> None:
        """Close sessions, and count their hosts as not reached, because of these errors."""
        for name in errors:
            self.pop(name).close()
        failed = {**self.failed, **errors}
        self.failed = {name: failed[name] for name in self.inventory.names if name in failed}

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """All operations inside take at most `seconds` on each host."""
        with ExitStack() as stack:
            for session in self.values():
                stack.enter_context(session.within(seconds))
            yield

    def __enter__(self) -> Sessions:
        return self

    def __exit__(self, *_: object) -> None:
        for session in self.values():
            session.close()


def open_sessions(inventory: Inventory, *, keys_only: bool = False) -> Sessions:
    """Connect to all hosts at the same time; the result has the sessions and the errors.
    `keys_only`: a host whose key is not known fails with that key, before a login."""
    opened: dict[str, Session] = {}
    failed: dict[str, Exception] = {}
    connected: list[Session] = []
    interrupted = threading.Event()
    begun = time.monotonic()

    def one(host: Host) -> None:
        try:
            session = _open(host, inventory, keys_only, begun)
            connected.append(session)
            if interrupted.is_set():
                return session.close()
            session.greet()
            opened[host.name] = session
        except (OSError, EOFError, SSHException, RailheadError) as error:
            failed[host.name] = error

    try:
        _all(one, {host.name: host for host in inventory.hosts})
    except KeyboardInterrupt:
        interrupted.set()
        for session in connected:  # this ends the threads that wait for a greeting
            session.close()
        raise
    for session in connected:
        if session.host.name in failed:
            session.close()
    return Sessions(inventory, opened, failed)


def everywhere(
    opened: Mapping[str, Session],
    work: Callable[[Session], T],
    *,
    what: str,
    error: type[HostsFailed] = HostsFailed,
) -> dict[str, T]:
    """Run `work` on all hosts at once and wait for all.

    Raises:
        HostsFailed: it failed on a host; the error has every host's outcome.
    """
    results, failed = attempts(opened, work)
    if failed:
        outcomes = {name: str(failed[name]) if name in failed else "ok" for name in opened}
        kind = HostsNotReady if all(isinstance(e, UsageError) for e in failed.values()) else error
        raise kind(f"{what} failed on {len(failed)} of {len(outcomes)} hosts", outcomes)
    return {name: results[name] for name in opened}


def attempts(
    opened: Mapping[str, Session], work: Callable[[Session], T]
) -> tuple[dict[str, T], dict[str, RailheadError]]:
    """Run `work` on all hosts at once and wait for all: the results, and the errors."""
    results: dict[str, T] = {}
    failed: dict[str, RailheadError] = {}

    def one(session: Session) -> None:
        try:
            results[session.host.name] = work(session)
        except RailheadError as failure:
            failed[session.host.name] = failure

    _all(one, opened)
    return results, failed


def _all(work: Callable[[T], object], items: Mapping[str, T]) -> None:
    """Run `work` on all items, by host name, at the same time. After Ctrl-C the caller closes the
    sessions, which ends their work; threads that still connect end with the process."""
    waiting = set(items)

    def one(name: str) -> None:
        work(items[name])
        waiting.discard(name)

    try:
        side_by_side(one, [*items])()
    except KeyboardInterrupt as end:
        interrupts.name_awaited(end, sorted(waiting))
        raise


def all_facts(opened: Mapping[str, Session]) -> dict[str, HostFacts]:
    """Every host's facts, in the inventory's order."""
    return everywhere(opened, Session.facts, what="reading facts", error=HostsNotReady)


def start_agent(session: Session, facts: HostFacts | None = None) -> str:
    """Start the agent of one host; returns the path of the host's Python. `facts`: None reads them.

    Raises:
        UsageError: the host has no Python that can run it.
    """
    facts = facts or session.facts()
    if not facts.python:
        raise UsageError("no Python 3.10 to 3.13 there", hint=Command("bootstrap"))
    session.start_agent(facts.python)
    return facts.python
