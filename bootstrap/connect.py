"""The only SSH: one connection and one exec channel per host, pinned keys, bounded and retried.

Fabric reads the user's ssh_config and holds the connection (paramiko is the transport); its
AutoAddPolicy is never used. `everywhere` asks all hosts at once, waits for all and reports all.
"""

from __future__ import annotations

import contextlib
import json
import random
import shlex
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import paramiko
from fabric import Config, Connection
from paramiko.ssh_exception import (
    AuthenticationException,
    BadHostKeyException,
    NoValidConnectionsError,
    SSHException,
)

from bootstrap import record
from bootstrap.errors import HostsFailed, HostsNotReady, RailheadError, UsageError
from bootstrap.facts import HostFacts, parse, script
from bootstrap.inventory import Host, Inventory
from bootstrap.package import Bundle, tar

T = TypeVar("T")
CONNECT_SECONDS = 10
AT_ONCE = 8  # sshd's MaxStartups begins to drop connections at 10 that are not yet logged in
TRIES = 5
AGENT = Path(__file__).parent / "remote" / "agent.py"

# Reads sh line by line and runs it at each @go: facts need no Python, and `exec` hands the same
# channel on to the agent, because POSIX `read` takes no byte beyond its line.
LOOP = """s=
while IFS= read -r l; do
case $l in @go) eval "$s"; s=;; *) s="$s
$l";; esac
done"""
START_AGENT = (
    "import sys;b=sys.stdin.buffer;exec(compile(b.read(int(b.readline())),'agent','exec'))"
)


class UnknownHostKey(SSHException):
    """No pin for this host; `key` is what it showed."""

    def __init__(self, hostname: str, key: paramiko.PKey) -> None:
        super().__init__(hostname)
        self.hostname = hostname
        self.key = key


class _Pinned(paramiko.MissingHostKeyPolicy):
    def missing_host_key(self, client: Any, hostname: str, key: paramiko.PKey) -> None:
        raise UnknownHostKey(hostname, key)


@dataclass(frozen=True)
class Reply:
    """What one command on a host answered: its exit code and its last lines."""

    rc: int
    tail: tuple[str, ...]


class Session:
    """One connection to one host and the one channel in it. Not shared between threads."""

    def __init__(self, host: Host, connection: Connection) -> None:
        self.host = host
        self.connection = connection
        transport = connection.transport
        assert transport is not None
        transport.set_keepalive(15)
        self.host_key: paramiko.PKey = transport.get_remote_server_key()
        self._channel = transport.open_session(timeout=CONNECT_SECONDS)
        self._channel.exec_command("exec sh -c " + shlex.quote(LOOP))
        self._out = self._channel.makefile("rb")
        self._agent = False

    def sh(self, text: str) -> str:
        """Run POSIX sh on the host and return what it printed."""
        self._send(f"{text}\necho; echo @end\n@go\n".encode())
        lines = []
        for raw in iter(self._out.readline, b""):
            line = raw.decode(errors="replace")
            if line == "@end\n":
                return "".join(lines)
            lines.append(line)
        raise self._broken()

    def facts(self) -> HostFacts:
        """Read every fact of this host; writes nothing there."""
        return parse(self.sh(script()))

    def start_agent(self, python: str) -> None:
        """Hand the channel to the agent, run by the host's `python`; once per session."""
        if self._agent:
            return
        source = AGENT.read_bytes()
        command = shlex.join([python, "-I", "-S", "-c", START_AGENT])
        self._send(f"exec {command}\n@go\n{len(source)}\n".encode() + source)
        self._agent = True
        self._answer("agent", stop_at="agent")

    def ask(
        self, op: str, *, told: Callable[[Mapping[str, Any]], None] | None = None, **kw: Any
    ) -> Any:
        """Run one operation of remote/agent.py; its events go to `told`.

        Raises:
            RailheadError: the operation failed on the host, or the connection broke.
        """
        assert self._agent, "start_agent first"
        self._send(json.dumps({"op": op, **kw}).encode() + b"\n")
        return self._answer(op, told=told)

    def send_tree(self, bundle: Bundle, dest: str, *, prune: bool = True) -> Any:
        """Make folder `dest` on the host hold the bundle; only contents it lacks travel."""

        def needed(event: Mapping[str, Any]) -> None:
            payload = _packed(bundle, tuple(sorted(event["need"]))) if event["need"] else b""
            self._send(b"%d\n" % len(payload) + payload)

        manifest = bundle.manifest()["files"]
        return self.ask(
            "tree",
            told=needed,
            manifest=manifest,
            blobs="~/.railhead/blobs",
            dest=dest,
            prune=prune,
        )

    def run(
        self,
        argv: Sequence[str],
        *,
        told: Callable[[Mapping[str, Any]], None] | None = None,
        **kw: Any,
    ) -> Reply:
        """Run a command on the host, `~` at a word's start meaning the host's home."""
        answer = self.ask("run", told=told, argv=list(argv), **kw)
        return Reply(answer["rc"], tuple(answer["tail"]))

    def get(self, root: str, patterns: Sequence[str], out: Path, *, limit: int) -> Any:
        """Fetch files as one tar.gz into `out`; answers {"files": [...], "left": [...]}."""
        with out.open("wb") as sink:

            def chunk(event: Mapping[str, Any]) -> None:
                left = event["chunk"]
                while left:
                    data = self._out.read(min(left, 1 << 20))
                    if not data:
                        raise self._broken()
                    sink.write(data)
                    left -= len(data)

            return self.ask("get", told=chunk, root=root, patterns=list(patterns), limit=limit)

    def close(self) -> None:
        """End the channel and the connection; what was started to outlive them stays."""
        with contextlib.suppress(Exception):
            self._channel.close()
        with contextlib.suppress(Exception):
            self.connection.close()

    def _send(self, data: bytes) -> None:
        try:
            self._channel.sendall(data)
        except (OSError, EOFError, SSHException) as error:
            raise self._broken() from error

    def _answer(
        self,
        op: str,
        told: Callable[[Mapping[str, Any]], None] | None = None,
        stop_at: str = "",
    ) -> Any:
        for raw in iter(self._out.readline, b""):
            if not raw.startswith(b"{"):
                continue  # a talkative login shell
            answer = json.loads(raw)
            if "ok" in answer:
                return answer["ok"]
            if "error" in answer:
                raise _agent_error(self.host, op, answer["error"])
            if stop_at and stop_at in answer["event"]:
                return answer["event"]
            if told:
                told(answer["event"])
        raise self._broken()

    def _broken(self) -> RailheadError:
        said = b""
        with contextlib.suppress(Exception):
            if self._channel.recv_stderr_ready():
                said = self._channel.recv_stderr(4096)
        detail = said.decode(errors="replace").strip()[-600:]
        return ConnectionLost(
            f"the connection to {self.host} broke" + (f": {detail}" if detail else "")
        )


class ConnectionLost(RailheadError):
    """The channel ended before its answer came; nothing is known of what the host did."""


def _agent_error(host: Host, op: str, error: Mapping[str, str]) -> RailheadError:
    if error["errno"] in ("ENOSPC", "EDQUOT"):
        return RailheadError(
            f"the disk is full ({error['text']})", hint=f"fab exec --hosts {host} --cmd 'df -h ~'"
        )
    return RailheadError(f"{op}: {error['text']}")


@cache
def _packed(bundle: Bundle, needed: tuple[str, ...]) -> bytes:
    return tar(bundle, needed)


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
    _pin(connection, record.known_hosts_files(inventory.name))
    return connection


def _pin(connection: Connection, files: Sequence[Path]) -> None:
    """Replace Fabric's accept-anything policy, on the connection and on each of its jumps."""
    hop: Any = connection
    while isinstance(hop, Connection):
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(_Pinned())
        for known in files:
            with contextlib.suppress(FileNotFoundError):
                client.load_system_host_keys(str(known))
        hop.client = client
        hop = hop.gateway


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
    """One line, for a person, on why `host` could not be reached, with what to do about it."""
    if isinstance(error, UnknownHostKey):
        shown = f"{error.key.get_name()} {fingerprint(error.key)}"
        return f"unknown host key {shown}\nnext: fab trust --hosts {host}"
    if isinstance(error, BadHostKeyException):
        return (
            f"REFUSED: its host key changed to {fingerprint(error.key)}; it may be another machine\n"
            f"next, if you know why: ssh-keygen -R {_key_name(error.hostname, host)}, then fab trust"
        )
    if isinstance(error, AuthenticationException) or "authentication methods" in str(error):
        return f"none of your keys is accepted (a password is not asked)\nnext: ssh-copy-id {_dest(host)}"
    if isinstance(error, socket.gaierror):
        return f"the name {host.address!r} does not resolve"
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_SECONDS} s: is it running, and is port {host.port or 22} open?"
    if isinstance(error, (ConnectionRefusedError, NoValidConnectionsError)):
        return f"refused: no sshd answers on port {host.port or 22}"
    if isinstance(error, RailheadError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _dest(host: Host) -> str:
    user = f"{host.user}@" if host.user else ""
    return (f"-p {host.port} " if host.port else "") + user + host.address


def _key_name(hostname: str, host: Host) -> str:
    return f"'[{hostname}]:{host.port}'" if host.port and host.port != 22 else hostname


def fingerprint(key: paramiko.PKey) -> str:
    """SHA256:... as `ssh-keygen -l` prints it."""
    return str(key.fingerprint)


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
