"""One connection to one host and its only exec channel, which runs sh first, then the agent.

Facts need no Python on the host. The agent (host/agent) does everything else: its archive is sent
over the same channel, and its start writes nothing to the host's disk.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shlex
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn, cast

import paramiko

from railhead.documents.agent.commands import CommandResult, Grown, Line, Run
from railhead.documents.agent.files import (
    Needed,
    Placed,
    PlaceFolder,
    Read,
    Remove,
    TextFile,
    Tree,
    Write,
)
from railhead.documents.agent.packing import Collect, Collected, Get, GetFile, Sent
from railhead.documents.agent.request import (
    LONGEST_LINE,
    Bounds,
    Chunk,
    E,
    Failure,
    Hello,
    R,
    Request,
)
from railhead.documents.agent.runs import IsRunning
from railhead.documents.codec import decode as decode_document
from railhead.documents.codec import encode

from ..console import log
from ..console.output import Reporter, TransferReporter
from ..console.threads import in_one_thread
from ..errors import Command, RailheadError
from ..facts import egress
from ..facts.egress import Egress
from ..facts.host import HostFacts, parse, script
from ..host.base.regular_files import size_and_sha256
from ..host.run.controller import AGENT
from ..inventory.host_programs import archive, head
from ..inventory.hosts import Host
from ..untrusted import decode, unpack
from .bounded_channel import BoundedChannel
from .bundle import Bundle, contents
from .connection import Connection
from .connection import ConnectionLost as ConnectionLost

OPEN = Bounds(60, 60, 4_000_000)  # the shell's greeting, the facts, the agent's start
SHELL = Bounds(600, 12 * 3600, 16_000_000)
BLOBS = "~/.railhead/blobs"
GREETING_LINES = 5  # shown at most, of the output before the shell
EXIT_CODE = re.compile("[0-9]{1,3}")
OnLine = Callable[[Line | Grown], None]

# Reads sh line by line and runs the lines at each @go, so that facts need no Python. POSIX `read`
# takes no byte beyond its line, so `exec` can pass the same channel to the agent. Output before
# @loop is the greeting of a login shell. One line without quotes, `!` and `\\\\`, which csh, tcsh
# and fish read differently from sh. $n is a newline. The PATH of an account may lack the system's
# folders.
SYSTEM_PATH = "PATH=${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin; export PATH; "
LOOP = (
    r'n=$(printf "\n."); n=${n%.}; s=; cd "$HOME"; '
    f"{SYSTEM_PATH}echo; echo @loop; while IFS= read -r l; do"
    ' case $l in @go) eval "$s"; s=;; *) s="$s$n$l";; esac; done'
)
LOGIN = "exec /bin/sh -c " + shlex.quote(LOOP)  # works in any login shell
# Python imports modules from an archive, here a file in memory. A host that an agent has prepared
# keeps the archive (host/agent/kept_programs.py), so it is sent to each host only once.
START_AGENT = f"""
import os, sys, zlib
name, checksum, size = sys.stdin.buffer.readline().decode().split()
kept = os.path.expanduser(f"~/.railhead/programs/{{name}}.pyz")
try:
    with open(kept, "rb") as file:
        packed = file.read()
except OSError:
    packed = b""
sent = zlib.crc32(packed) != int(checksum)
if sent:
    print('{{"event": {{"needed": true}}}}', flush=True)
    packed = sys.stdin.buffer.read(int(size))
archive = os.memfd_create({AGENT.decode()})
with open(archive, "wb", closefd=False) as file:
    file.write(packed)
sys.path.insert(0, f"/proc/self/fd/{{archive}}")
from host.agent import agent
agent.main(kept if sent else "")
"""


class Session:
    """One connection to one host and the one channel in it. Not shared between threads."""

    def __init__(self, host: Host, connection: Connection) -> None:
        """Begin a session over an open connection, which the session closes at its end."""
        self.connection = connection
        self._use(host, connection.shell(LOGIN), connection.close)

    @property
    def host_key(self) -> paramiko.PKey:
        """The key of the host's sshd."""
        return self.connection.host_key

    def _use(self, host: Host, channel: Any, close: Callable[[], None]) -> None:
        """Use this channel to a shell that runs LOOP."""
        self.host = host
        self._close_connection = close
        self._channel = BoundedChannel(host, channel)
        # Random, so that no output of a command can contain it.
        self._mark = secrets.token_hex(8)
        self._agent = False

    def sh(self, text: str, *, report: Reporter | None = None, silence: float | None = None) -> str:
        """Run POSIX sh on the host and return its output; `report` gets each line as it comes.

        Raises:
            ConnectionLost: the channel broke, or the command exceeded its bounds
                (bounded_channel.py); `silence` replaces the longest one.
        """
        return self._sh(SHELL, text, report, silence)

    def _sh(
        self,
        bounds: Bounds,
        text: str,
        report: Reporter | None = None,
        silence: float | None = None,
    ) -> str:
        operation = self._channel.operation(bounds, silence=silence)
        with self._logged(f"sh: {log.shown(text)}"), operation:
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

    def shell(
        self, command: str, *, silence: float | None = None, report: Reporter | None = None
    ) -> tuple[list[str], int]:
        """Run a shell command without input; returns its output with stderr, and its exit code.
        `report` gets each line as it comes. ConnectionLost when nothing came for `silence` seconds.
        """
        found = self._shell((command,), silence, report and _before(self._rc, report))
        return found[0]

    def shell_all(self, *commands: str) -> list[tuple[list[str], int]]:
        """As `shell` for each of several commands, in one round trip."""
        return self._shell(commands)

    @property
    def _rc(self) -> str:
        return f"@rc {self._mark} "

    def _shell(
        self,
        commands: Sequence[str],
        silence: float | None = None,
        report: Reporter | None = None,
    ) -> list[tuple[list[str], int]]:
        # Quoted: invalid sh, such as an open quote, ends the subshell and not the session.
        rest = f') </dev/null 2>&1; r=$?; echo; echo "{self._rc}$r"'
        text = "\n".join(f"( eval {shlex.quote(command)} {rest}" for command in commands)
        found, body = [], list[str]()
        for line in self.sh(text, silence=silence, report=report).splitlines():
            if not line.startswith(self._rc):
                body.append(line)
                continue
            code = line.removeprefix(self._rc)
            if not EXIT_CODE.fullmatch(code):
                break
            found.append((body[:-1] if body and not body[-1] else body, int(code)))
            body = []
        if len(found) != len(commands):
            raise unpack.Hostile("the output of a command without its exit code")
        for command, (_, exit_code) in zip(commands, found, strict=True):
            log.event(f"{self.host.name}: exit {exit_code} of {log.shown(command)}")
        return found

    def _lines(self, report: Reporter | None) -> Iterator[str]:
        for raw in iter(lambda: self._channel.readline(LONGEST_LINE), b""):
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
            Unresponsive: the host accepted the login, but no shell has answered.
            ConnectionLost: it closed the session; the error has its output.
        """
        printed = deque[bytes](maxlen=GREETING_LINES)
        with self._channel.operation(OPEN):
            for line in iter(lambda: self._channel.readline(LONGEST_LINE), b""):
                if line == b"@loop\n":
                    return
                printed.append(line)
            raise self._channel.lost(b"".join(printed))

    def facts(self) -> HostFacts:
        """Read every fact of this host; writes nothing on it."""
        return parse(self._sh(OPEN, script()))

    def egress(self) -> Egress:
        """Test the outbound access of this host; Hostile if the answer is not valid."""
        output = self._sh(OPEN, egress.SCRIPT)
        try:
            return egress.parse(output)
        except ValueError:
            raise unpack.Hostile("a test of its network that is not valid") from None

    @property
    def has_agent(self) -> bool:
        """Whether the agent runs in the channel; then `sh` can no longer be called."""
        return self._agent

    def start_agent(self, python: str) -> None:
        """Start the agent in the channel, with the host's `python`; a second call does nothing."""
        if self._agent:
            return
        packed, command = archive(), shlex.join([python, "-I", "-S", "-c", START_AGENT])
        with self._logged(f"start the agent with {python}"), self._channel.operation(OPEN):
            self._agent = True  # even if it fails: then nothing runs in the channel
            self._send(f"exec {command}\n@go\n{head(packed)}\n".encode())
            first = next(self._messages())
            if first.get("event") == {"needed": True}:
                self._send(packed)
                first = next(self._messages())
            _document(Hello, first.get("event"), "a greeting of the agent")

    def call(
        self,
        request: Request[R, E],
        *,
        on_event: Callable[[E], None] | None = None,
        silence: float | None = None,
        bytes: int = 0,
    ) -> R:
        """Carry out one operation of the agent; its events go to `on_event`.

        Raises:
            RailheadError: the operation failed on the host, the connection broke, or the operation
                exceeded its bounds; `silence` replaces the longest silence, and `bytes` may
                come in addition.
            Hostile: the host sent something other than this operation's events and reply.
        """
        assert self._agent, "start_agent first"
        bounds = self._channel.operation(request.bounds, silence=silence, bytes=bytes)
        with self._logged(f"agent {request.op}{_log_details(request)}") as notes:
            with bounds:
                self._send(_line(request))
                reply = self._reply(request, on_event)
            if isinstance(reply, CommandResult):
                notes.append(f"exit {reply.rc}")
            return reply

    def call_all(self, *requests: Request[Any, Any]) -> list[Any]:
        """Carry out several short operations in one round trip: the host has all of them before it
        answers the first. Their events are ignored, and none of them may request bytes. If one
        fails, the host still carries out the others.

        Raises:
            As `call`, after all answers: the first error of an operation.
        """
        assert self._agent, "start_agent first"
        bounds = [request.bounds for request in requests]
        whole = Bounds(
            max(bound.silence for bound in bounds),
            sum(bound.seconds for bound in bounds),
            sum(bound.bytes for bound in bounds),
        )
        names = "; ".join(f"{request.op}{_log_details(request)}" for request in requests)
        with self._logged(f"agent {names}"), self._channel.operation(whole):
            self._send(b"".join(map(_line, requests)))
            return self._replies(requests)

    def _replies(self, requests: Sequence[Request[Any, Any]]) -> list[Any]:
        replies, errors = [], []
        for request in requests:
            try:
                replies.append(self._reply(request, None))
            except (ConnectionLost, unpack.Hostile):
                raise
            except RailheadError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return replies

    def read(self, path: str, *, silence: float | None = None) -> str | None:
        """The text of a small file on the host; None if it does not exist."""
        return self.call(Read(path), silence=silence).text

    def write(self, *files: TextFile) -> None:
        """Write small files on the host."""
        self.call(Write(files))

    def remove(self, *paths: str) -> tuple[str, ...]:
        """Remove files and folders on the host; returns those that could not be removed."""
        return self.call(Remove(paths)).left

    def is_running(self, pid: int, folder: str, program: str) -> bool:
        """Whether a process is this program (host/base/programs.py) of a run or an endpoint."""
        return self.call(IsRunning(pid, folder, program)).running

    def send_tree(
        self,
        bundle: Bundle,
        dest: str,
        *,
        prune: bool = True,
        on_sent: TransferReporter | None = None,
    ) -> Placed:
        """Make folder `dest` on the host contain the bundle; only missing contents are sent.
        `on_sent` gets the bytes sent so far, and in total."""
        return self._send_files(Tree(bundle.files, BLOBS, dest, prune), bundle, on_sent)

    def send_folder(
        self, bundle: Bundle, dest: str, *, on_sent: TransferReporter | None = None
    ) -> Placed:
        """Create folder `dest`, named by a digest, on the host with the whole bundle or not at all;
        replaces a damaged one."""
        return self._send_files(PlaceFolder(bundle.files, BLOBS, dest), bundle, on_sent)

    def _send_files(
        self, request: Request[Placed, Needed], bundle: Bundle, on_sent: TransferReporter | None
    ) -> Placed:
        def needed(event: Needed) -> None:
            missing = _checked_digests(event, bundle)
            payload = _packed(bundle, missing) if missing else b""
            self._send(b"%d\n" % len(payload))
            self._send(payload, on_sent)

        return self.call(request, on_event=needed)

    def send_stream(self, request: Request[R, E], content: Callable[[E], Iterator[bytes]]) -> R:
        """Carry out an operation that requests bytes by an event; `content` gives the bytes for it,
        which are sent as they come."""

        def requested(event: E) -> None:
            for piece in content(event):
                self._send(piece)

        return self.call(request, on_event=requested)

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        text: str | None = None,
        timeout: float | None = None,
        fetches: bool = False,
        lock: str = "",
        on_event: OnLine | None = None,
        silence: float | None = None,
    ) -> CommandResult:
        """Run a command on the host; `~` at the start of an argument means the host's home. After
        `timeout` seconds the host ends it."""
        if timeout is not None:
            silence = silence or max(Run.bounds.silence, timeout + OPEN.silence)
        request = Run(tuple(argv), env or {}, cwd, text, timeout, fetches, lock)
        return self.call(request, on_event=on_event, silence=silence)

    def get(self, root: str, patterns: Sequence[str], out: Path, *, limit: int) -> Sent:
        """Fetch the matching files as one tar.gz into `out`, which must not exist. Open it with
        `unpack.unpack`: its content is untrusted."""
        return self._receive(out, unpack.packed_limit(limit), Get(root, tuple(patterns), limit))

    def get_file(self, path: str, out: Path, *, limit: int) -> None:
        """Fetch one file of at most `limit` bytes into `out`, which must not exist.

        Raises:
            Hostile: it is larger, or does not match the sha256 that the host sent.
        """
        digest = self._receive(out, limit, GetFile(path, limit))
        if size_and_sha256(str(out))[1] != digest.sha256:
            raise unpack.Hostile("a file whose content does not match its sha256")

    def sizes(self, root: str, patterns: Sequence[str]) -> tuple[tuple[str, int], ...]:
        """The matching files of a folder, (path, bytes) each; untrusted, as all names of a host."""
        with tempfile.TemporaryDirectory() as folder:
            listed = self.get(root, patterns, Path(folder) / "empty", limit=0)
        return (*listed.files, *listed.left)

    def collect(self, folder: str, out: Path, *, limit: int) -> Collected:
        """Fetch a run's results as `get` does."""
        return self._receive(out, unpack.packed_limit(limit), Collect(folder, limit))

    def _receive(self, out: Path, most: int, request: Request[R, Chunk]) -> R:
        """The reply of an operation that sends at most `most` bytes, which go to `out`.

        Raises:
            Hostile: the host sent more.
        """
        remaining = most
        with unpack.new_file(out) as sink:

            def chunk(event: Chunk) -> None:
                nonlocal remaining
                missing = event.chunk
                if missing > remaining:
                    raise unpack.Hostile(f"more than {most} bytes")
                remaining -= missing
                while missing:
                    data = self._channel.read(missing)
                    if not data:
                        raise self._channel.lost()
                    sink.write(data)
                    missing -= len(data)

            more = 2 * most  # room for the lines between the pieces
            return self.call(request, on_event=chunk, bytes=more)

    def close(self) -> None:
        """Close the channel and the connection; processes detached from them keep running."""
        self._channel.close()
        self._close_connection()

    def _send(self, data: bytes, on_sent: TransferReporter | None = None) -> None:
        self._channel.send(data, on_sent)

    def _reply(self, request: Request[R, E], on_event: Callable[[E], None] | None) -> R:
        """The reply to a request, after its events."""
        for message in self._messages():
            match message:
                case {"ok": reply}:
                    return _checked_reply(request, reply)
                case {"error": error}:
                    raise _agent_error(self.host, request.op, error)
                case {"event": value} if request.event_kind is not NoReturn:
                    event = _document(request.event_kind, value, "an event that is not valid")
                    if on_event:
                        on_event(event)
                case _:
                    raise unpack.Hostile(f"neither an event nor a reply of {request.op!r}")
        raise AssertionError  # _messages ends with an error

    def _messages(self) -> Iterator[Mapping[str, Any]]:
        """The messages of the agent; ConnectionLost at the end of the channel."""
        for raw in iter(lambda: self._channel.readline(LONGEST_LINE), b""):
            if raw.startswith(b"{"):  # other lines are not from the agent
                yield self._decoded(raw)
        raise self._channel.lost()

    def _decoded(self, raw: bytes) -> dict[str, Any]:
        """One JSON line of the agent; Hostile when it is too long or not a JSON object."""
        try:
            if len(raw) >= LONGEST_LINE:
                raise unpack.Hostile(f"a line of more than {LONGEST_LINE} bytes")
            return decode.json_object(raw, "an answer that is not JSON")
        except unpack.Hostile:
            self.close()  # the next bytes may belong to this line
            raise


def _line(request: Request[Any, Any]) -> bytes:
    return json.dumps({"op": request.op, **encode(request)}).encode() + b"\n"


def _before(mark: str, report: Reporter) -> Reporter:
    """A reporter of the lines before the line that begins with `mark`, without the blank line
    directly before that one."""
    blank, ended = 0, False

    def of_output(raw: str) -> None:
        nonlocal blank, ended
        if ended:
            return
        ended = raw.startswith(mark)
        if not raw:
            blank += 1
            return
        for line in [""] * (blank - ended) + ([] if ended else raw.splitlines()):
            report(line)
        blank = 0

    return of_output


def _document(kind: Any, value: Any, what: str) -> Any:
    """The value as a document of this kind; Hostile, with `what`, if it is not one."""
    return decode_document(kind, value, what=what, error=unpack.Hostile)


def _checked_reply(request: Request[R, E], value: Any) -> R:
    """The value as the reply to a request; Hostile if it is not one."""
    what = f"a reply of {request.op!r} that is not valid"
    reply = cast(R, _document(request.reply_kind, value, what))
    if not request.is_answered_by(reply):
        raise unpack.Hostile(f"{what}: it is not complete")
    return reply


def _log_details(request: Request[R, E]) -> str:
    """An operation's arguments for the debug log: commands and paths, never contents."""
    details = []
    for name, value in vars(request).items():
        if name == "argv":
            details.append(log.shown(shlex.join(value)))
        elif name in ("dest", "root", "folder", "path"):
            details.append(str(value))
        elif name == "paths":
            details.append(log.shown(", ".join(value)))
        elif name == "files":
            details += [f"{file.path} ({len(file.text)} characters)" for file in value]
        elif name == "manifest":
            details.append(f"{len(value)} files")
    return f": {', '.join(details)}" if details else ""


def _checked_digests(event: Needed, bundle: Bundle) -> tuple[str, ...]:
    """The digests of contents that a host requests; Hostile if one is not in the bundle."""
    if not {*event.need} <= {file.sha256 for file in bundle.files}:
        raise unpack.Hostile("a request for a file that was not offered")
    return tuple(sorted(event.need))


class DiskFull(RailheadError):
    """A host could not write a file, because its disk has no space, or no inode, left."""


def _agent_error(host: Host, op: str, error: Any) -> RailheadError:
    failure = _document(Failure, error, "an error that is not valid")
    if failure.errno in ("ENOSPC", "EDQUOT"):
        what, shown = ("inodes", "-i") if failure.inodes else ("space", "-h")
        return DiskFull(
            f"the disk is full ({failure.text}): no {what} left",
            hint=Command("exec", hosts=host, cmd=f"df {shown} ~"),
        )
    return RailheadError(f"{op}: {failure.text}")


@in_one_thread
@lru_cache(maxsize=1)  # compressed once for all hosts; more entries would fill the memory
def _packed(bundle: Bundle, needed: tuple[str, ...]) -> bytes:
    return contents(bundle, needed)
