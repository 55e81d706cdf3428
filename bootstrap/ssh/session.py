"""One connection to one host and the one exec channel in it: sh first, then the agent.

Facts need no Python on the host. The agent (remote/agent) does everything else: the
archive with it is sent over the same channel, and its start writes nothing to the host's disk.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shlex
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import paramiko
from fabric import Connection
from paramiko.ssh_exception import SSHException

from bootstrap.console import log
from bootstrap.console.output import ByteReporter, Reporter
from bootstrap.errors import Command, RailheadError
from bootstrap.facts.host import HostFacts, parse, script
from bootstrap.inventory.hosts import Host
from bootstrap.remote.run.manifest import size_and_sha256
from bootstrap.ssh.bounded_channel import ANSWER, BOUNDS, BoundedChannel, Unresponsive
from bootstrap.ssh.bounded_channel import ConnectionLost as ConnectionLost
from bootstrap.ssh.bundle import Bundle, archive, tar
from bootstrap.untrusted import decode, unpack
from bootstrap.untrusted.answers import check_result, checked_event

OPEN_SECONDS = 10
EXIT_CODE = re.compile("[0-9]{1,3}")
OnEvent = Callable[[Mapping[str, Any]], None]

# Reads sh line by line and runs the lines at each @go, so that facts need no Python. POSIX `read`
# takes no byte beyond its line, so `exec` can pass the same channel to the agent. Output before
# @loop is the greeting of a login shell.
LOOP = """cd "$HOME"; echo; echo @loop
s=
while IFS= read -r l; do
case $l in @go) eval "$s"; s=;; *) s="$s
$l";; esac
done"""
# Python takes modules from archives, and this one is a file in memory.
START_AGENT = """
import os, sys
archive = os.memfd_create("railhead")
with open(archive, "wb", closefd=False) as file:
    file.write(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))
sys.path.insert(0, f"/proc/self/fd/{archive}")
from remote.agent import agent
agent.main()
"""


@dataclass(frozen=True)
class Reply:
    """The result of one command on a host: its exit code and its last lines of output."""

    rc: int
    tail: tuple[str, ...]


class Session:
    """One connection to one host and the one channel in it. Not shared between threads."""

    def __init__(
        self, host: Host, connection: Connection, close_connection: Callable[[], None]
    ) -> None:
        """An open connection; `close_connection` closes it and the jump hosts before it."""
        self.connection = connection
        transport = self.connection.transport
        assert transport is not None
        transport.set_keepalive(15)
        self.host_key: paramiko.PKey = transport.get_remote_server_key()
        channel = transport.open_session(timeout=OPEN_SECONDS)
        self._use(host, channel, close_connection)
        with _closed_after(OPEN_SECONDS, host, channel):
            channel.exec_command("exec sh -c " + shlex.quote(LOOP))

    def _use(self, host: Host, channel: Any, close: Callable[[], None]) -> None:
        """Use a channel to a shell that runs LOOP."""
        self.host = host
        self._close_connection = close
        self._channel = BoundedChannel(host, channel)
        # Random, so that no output of a command can contain it.
        self._mark = secrets.token_hex(8)
        self._agent = False

    def sh(self, text: str, *, report: Reporter | None = None, silence: float | None = None) -> str:
        """Run POSIX sh on the host and return its output; `report` gets each line as it comes.

        Raises:
            ConnectionLost: the channel broke, or the command did not keep its bounds
                (bounded_channel.py); `silence` replaces the longest one.
        """
        return self._sh("sh", text, report, silence)

    def _sh(
        self, kind: str, text: str, report: Reporter | None = None, silence: float | None = None
    ) -> str:
        with self._logged(f"sh: {log.shown(text)}"), self._channel.operation(kind, silence=silence):
            self._send(f"{text}\necho; echo @end {self._mark}\n@go\n".encode())
            return "".join(self._lines(report))

    def within(self, seconds: float) -> contextlib.AbstractContextManager[None]:
        """All operations inside take at most `seconds` together; then Unresponsive is raised."""
        return self._channel.within(seconds)

    @contextlib.contextmanager
    def _logged(self, operation: str) -> Iterator[list[str]]:
        """Log an operation with its duration, and the bytes that it sent and received."""
        sent, received = self._channel.sent, self._channel.received
        with log.timed(f"{self.host.name}: {operation}") as notes:
            try:
                yield notes
            finally:
                counts = (self._channel.sent - sent, self._channel.received - received)
                notes.append(f"{counts[0]} bytes sent, {counts[1]} received")

    def shell(self, command: str, *, silence: float | None = None) -> tuple[list[str], int]:
        """Run a shell command without input; returns its output with stderr, and its exit code.
        ConnectionLost when nothing came for `silence` seconds."""
        mark = f"@rc {self._mark} "
        # Quoted: what is no sh, such as an open quote, ends the subshell and not the session.
        text = f'( eval {shlex.quote(command)} ) </dev/null 2>&1; r=$?; echo; echo "{mark}$r"'
        output = self.sh(text, silence=silence)
        lines = output.splitlines()
        at = max((i for i, line in enumerate(lines) if line.startswith(mark)), default=-1)
        found = lines[at].removeprefix(mark) if at >= 0 else ""
        if not EXIT_CODE.fullmatch(found):
            raise unpack.Hostile("no exit code of a command")
        body, code = lines[: at - 1] if at and not lines[at - 1] else lines[:at], int(found)
        log.event(f"{self.host.name}: exit {code} of {log.shown(command)}")
        return body, code

    def _lines(self, report: Reporter | None) -> Iterator[str]:
        for raw in iter(lambda: self._channel.readline(ANSWER), b""):
            line = raw.decode(errors="replace")
            if line == f"@end {self._mark}\n":
                return
            if report:
                report(line.rstrip("\n"))
            yield line
        raise self._channel.lost()

    def greet(self) -> None:
        """Wait for the shell.

        Raises:
            Unresponsive: the host accepted the login, and no shell has answered.
        """
        with self._channel.operation("open"):
            for line in iter(lambda: self._channel.readline(ANSWER), b""):
                if line == b"@loop\n":
                    return
            raise self._channel.lost()

    def facts(self) -> HostFacts:
        """Read every fact of this host; writes nothing on it."""
        return parse(self._sh("open", script()))

    @property
    def has_agent(self) -> bool:
        """Whether the agent runs in the channel; then `sh` is over."""
        return self._agent

    def start_agent(self, python: str) -> None:
        """Start the agent in the channel, with the host's `python`; a second call does nothing."""
        if self._agent:
            return
        source = archive()
        command = shlex.join([python, "-I", "-S", "-c", START_AGENT])
        with self._logged(f"start the agent with {python}"), self._channel.operation("open"):
            self._send(f"exec {command}\n@go\n{len(source)}\n".encode() + source)
            self._agent = True
            self._answer("agent")

    def call(
        self,
        op: str,
        *,
        on_event: OnEvent | None = None,
        silence: float | None = None,
        bytes: int = 0,
        **kw: Any,
    ) -> Any:
        """Run one operation of the agent; its events go to `on_event`.

        Raises:
            RailheadError: the operation failed on the host, the connection broke, or the operation
                did not keep its bounds (bounded_channel.py); `silence` replaces the longest one,
                and so many `bytes` may come besides.
            Hostile: what it sent is not in the form of this operation's events and result.
        """
        assert self._agent, "start_agent first"
        with self._logged(f"agent {op}{_log_details(kw)}") as notes:
            with self._channel.operation(op, silence=silence, bytes=bytes):
                self._send(json.dumps({"op": op, **kw}).encode() + b"\n")
                answer = self._answer(op, on_event=on_event)
            check_result(op, answer, kw)
            if op == "run":
                notes.append(f"exit {answer['rc']}")
            return answer

    def is_running(self, pid: int, folder: str, program: str) -> bool:
        """Whether a process is this program (remote/programs.py) of a run or an endpoint."""
        reply = self.call("is_running", pid=pid, folder=folder, program=program)
        return bool(reply["running"])

    def send_tree(
        self, bundle: Bundle, dest: str, *, prune: bool = True, on_sent: ByteReporter | None = None
    ) -> Any:
        """Make folder `dest` on the host contain the bundle; only missing contents are sent.
        `on_sent` gets the bytes sent so far."""
        return self._send_files("tree", bundle, on_sent, dest=dest, prune=prune)

    def send_folder(self, bundle: Bundle, dest: str, *, on_sent: ByteReporter | None = None) -> Any:
        """Create folder `dest`, named by a digest, on the host with the whole bundle or not at all;
        a damaged one is replaced."""
        return self._send_files("place_folder", bundle, on_sent, dest=dest)

    def _send_files(self, op: str, bundle: Bundle, on_sent: ByteReporter | None, **kw: Any) -> Any:
        def needed(event: Mapping[str, Any]) -> None:
            missing = _checked_digests(event, bundle)
            payload = _packed(bundle, missing) if missing else b""
            self._send(b"%d\n" % len(payload))
            self._send(payload, on_sent)

        manifest = bundle.manifest()["files"]
        return self.call(op, on_event=needed, manifest=manifest, blobs="~/.railhead/blobs", **kw)

    def send_stream(
        self, op: str, content: Callable[[Mapping[str, Any]], Iterator[bytes]], **kw: Any
    ) -> Any:
        """Run an operation that requests bytes by an event; `content` gives the bytes for it, which
        are sent as they come."""

        def requested(event: Mapping[str, Any]) -> None:
            for piece in content(event):
                self._send(piece)

        return self.call(op, on_event=requested, **kw)

    def run(
        self,
        argv: Sequence[str],
        *,
        on_event: OnEvent | None = None,
        silence: float | None = None,
        timeout: float | None = None,
        **kw: Any,
    ) -> Reply:
        """Run a command on the host; `~` at the start of an argument means the host's home. After
        `timeout` seconds the host ends it."""
        if timeout is not None:
            kw["timeout"] = timeout
            silence = silence or max(BOUNDS["run"].silence, timeout + BOUNDS["open"].silence)
        answer = self.call("run", on_event=on_event, silence=silence, argv=list(argv), **kw)
        return Reply(answer["rc"], tuple(answer["tail"]))

    def get(self, root: str, patterns: Sequence[str], out: Path, *, limit: int) -> Any:
        """Fetch the matching files as one tar.gz into `out`, which must not exist; returns
        {"files": [...], "left": [...]}. Open it with `unpack.unpack`: its content is untrusted."""
        most = unpack.packed_limit(limit)
        return self._receive(out, most, "get", root=root, patterns=list(patterns), limit=limit)

    def get_file(self, path: str, out: Path, *, limit: int) -> None:
        """Fetch one file of at most `limit` bytes, as it is, into `out`, which must not exist.

        Raises:
            Hostile: it is larger, or not what the host has the sha256 of.
        """
        answer = self._receive(out, limit, "get_file", path=path, limit=limit)
        if size_and_sha256(str(out))[1] != answer["sha256"]:
            raise unpack.Hostile("a file with another content than its sha256 says")

    def sizes(self, root: str, patterns: Sequence[str]) -> list[Any]:
        """The matching files of a folder, [path, bytes] each; untrusted, as all names of a host."""
        with tempfile.TemporaryDirectory() as folder:
            found = self.get(root, patterns, Path(folder) / "empty", limit=0)
        return [*found["files"], *found["left"]]

    def collect(self, folder: str, out: Path, *, limit: int) -> Any:
        """Fetch a run's results as `get` does; the result has also "skipped" and "changed"."""
        most = unpack.packed_limit(limit)
        return self._receive(out, most, "collect", folder=folder, limit=limit)

    def _receive(self, out: Path, most: int, op: str, **kw: Any) -> Any:
        """The result of an operation that sends at most `most` bytes, which go to `out`.

        Raises:
            Hostile: the host sent more.
        """
        remaining = most
        with unpack.new_file(out) as sink:

            def chunk(event: Mapping[str, Any]) -> None:
                nonlocal remaining
                left = event.get("chunk")
                if type(left) is not int or not 0 < left <= remaining:
                    raise unpack.Hostile(f"more than {most} bytes")
                remaining -= left
                while left:
                    data = self._channel.read(left)
                    if not data:
                        raise self._channel.lost()
                    sink.write(data)
                    left -= len(data)

            more = 2 * most  # with the lines between the pieces
            return self.call(op, on_event=chunk, bytes=more, **kw)

    def close(self) -> None:
        """Close the channel and the connection; processes detached from them keep running."""
        self._channel.close()
        self._close_connection()

    def _send(self, data: bytes, on_sent: ByteReporter | None = None) -> None:
        self._channel.send(data, on_sent)

    def _answer(self, op: str, on_event: OnEvent | None = None) -> Any:
        """The result of an operation, after its events; of the start of the agent, its event."""
        for raw in iter(lambda: self._channel.readline(ANSWER), b""):
            if not raw.startswith(b"{"):  # not from the agent
                continue
            answer = self._decoded(raw)
            if "ok" in answer:
                return answer["ok"]
            if "error" in answer:
                raise _agent_error(self.host, op, answer["error"])
            event = checked_event(op, answer.get("event"))
            if op == "agent":
                return event
            if on_event:
                on_event(event)
        raise self._channel.lost()

    def _decoded(self, raw: bytes) -> dict[str, Any]:
        """One JSON line of the agent; Hostile when it is too long or no JSON object."""
        try:
            if len(raw) >= ANSWER:
                raise unpack.Hostile(f"a line of more than {ANSWER} bytes")
            return decode.json_object(raw, "an answer that is no JSON")
        except unpack.Hostile:
            self.close()  # what follows may be the rest of it
            raise


@contextlib.contextmanager
def _closed_after(seconds: float, host: Host, channel: Any) -> Iterator[None]:
    """Close a channel whose request is not answered in time, for which paramiko waits for ever;
    then Unresponsive is raised."""
    late = threading.Event()

    def close() -> None:
        late.set()
        channel.close()

    timer = threading.Timer(seconds, close)
    timer.daemon = True
    timer.start()
    try:
        yield
    except SSHException:
        if not late.is_set():
            raise
        raise Unresponsive(f"{host} has started no shell within {seconds:.0f} s") from None
    finally:
        timer.cancel()


def _log_details(arguments: Mapping[str, Any]) -> str:
    """An operation's arguments for the debug log: commands and paths, never contents."""
    details = []
    if "argv" in arguments:
        details.append(log.shown(shlex.join(arguments["argv"])))
    for name in ("dest", "root", "folder"):
        if name in arguments:
            details.append(str(arguments[name]))
    if "paths" in arguments:
        details.append(log.shown(", ".join(arguments["paths"])))
    if "files" in arguments:
        details += [f"{path} ({len(text)} characters)" for path, _, text in arguments["files"]]
    if "manifest" in arguments:
        details.append(f"{len(arguments['manifest'])} files")
    return f": {', '.join(details)}" if details else ""


def _checked_digests(event: Mapping[str, Any], bundle: Bundle) -> tuple[str, ...]:
    """The contents that a host requests; Hostile if it requests others than those of the bundle."""
    known = {entry["sha256"] for entry in bundle.manifest()["files"]}
    needed = event.get("need")
    if not isinstance(needed, list) or not all(isinstance(digest, str) for digest in needed):
        raise unpack.Hostile("a request for files that is not valid")
    if not {*needed} <= known:
        raise unpack.Hostile("a request for a file that was not offered")
    return tuple(sorted(needed))


def _agent_error(host: Host, op: str, error: Any) -> RailheadError:
    if not isinstance(error, dict) or not {"errno", "text"} <= {*error}:
        return unpack.Hostile("an error that is not valid")
    if error["errno"] in ("ENOSPC", "EDQUOT"):
        return RailheadError(
            f"the disk is full ({error['text']})",
            hint=Command("exec", hosts=host, cmd="df -h ~"),
        )
    return RailheadError(f"{op}: {error['text']}")


@lru_cache(maxsize=1)  # one archive for all hosts; more would fill the memory
def _packed(bundle: Bundle, needed: tuple[str, ...]) -> bytes:
    return tar(bundle, needed)
