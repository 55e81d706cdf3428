"""Keeps one endpoint running: starts its server, restarts it after a crash, ends it when its time
is over.

It works in ~/.railhead/endpoints/NAME, where endpoint.json is. This process owns the listening
socket and passes it to each server, so that connections wait while a server restarts. A server ends
with this process, because its standard input closes.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO, Any

from railhead.documents.codec import decode, encode
from railhead.documents.lazy import replace
from railhead.documents.serving.endpoint import (
    EndpointDocument,
    EndpointState,
    Health,
    ServingStatus,
)

from ..base import bounded, json_file, locks, programs
from ..run import machine_use

FOLDER = os.getcwd()  # the endpoint's folder
PAUSES = (0.0, 1.0, 5.0, 15.0, 30.0)  # seconds before each restart
BEAT = 5.0  # seconds between two heartbeats in a pause
WINDOW = 600.0  # seconds: older crashes do not count
NO_RESTART = (2, 3)  # exit codes of a server that would not start the next time either
HUNG = 60.0  # seconds without a response after which a server is terminated
STOPPING = 60.0  # seconds for the command that stops the machine
GRACE = 12.0  # seconds for requests in progress when the server ends
LOG = 5_000_000  # bytes of the server's log; one older part is kept


def path(name: str) -> str:
    """A path in the endpoint's folder."""
    return os.path.join(FOLDER, name)


class Log:
    """Appends the server's output to a file, which is rotated when it is large."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.last: list[str] = []

    def follow(self, pipe: IO[bytes]) -> None:
        """Read until the server closes its output."""
        for line in iter(lambda: pipe.readline(1 << 16), b""):
            self.last = [*self.last, line.decode(errors="replace").rstrip()][-20:]
            with contextlib.suppress(OSError):  # a full disk does not end the endpoint
                self.write(line)

    def write(self, line: bytes) -> None:
        """Append a line."""
        if os.path.exists(self.file) and os.path.getsize(self.file) > LOG:
            os.replace(self.file, f"{self.file}.1")
        with open(self.file, "ab") as out:
            out.write(line)


class Server:
    """One process that serves. Without a listener it opens the port itself."""

    def __init__(
        self, document: EndpointDocument, listener: socket.socket | None, log: Log
    ) -> None:
        fds = [listener.fileno()] if listener else []
        self.port, self.path = document.port, document.health
        self.process = subprocess.Popen(
            [os.path.expanduser(arg) for arg in document.argv]
            + [text for fd in fds for text in ("--fd", str(fd))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=fds,
            env={**os.environ, **document.env},
        )
        assert self.process.stdout
        self.reader = threading.Thread(target=log.follow, args=(self.process.stdout,), daemon=True)
        self.reader.start()
        self.responded = time.monotonic()
        self.health: Health | None = None  # of a server that is ready

    def check_health(self) -> None:
        """Read the server's health; any response shows that it does not hang."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", self.path)
            reply = connection.getresponse()
            body = reply.read(10_000)
            self.responded = time.monotonic()
            self.health = health_of(json.loads(body)) if reply.status == 200 else None
        except (OSError, http.client.HTTPException, ValueError):
            pass  # loading, busy or gone
        finally:
            connection.close()

    def end(self) -> None:
        """Let the server finish its requests, then end it."""
        self.process.terminate()
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join(2)  # so that its last lines are in the log


class ServerProcess:
    """Keeps the server of an endpoint running. States: starting, ready, restarting; at the end
    `ended` or `failed`, with a reason."""

    def __init__(self) -> None:
        self.document = read_document()
        self.state = EndpointState(state="starting", pid=os.getpid())
        self.log = Log(path("logs/server.log"))
        self.crashes: list[float] = []
        self.served = False  # whether a server was ever ready
        self.stop_requested = threading.Event()

    def run(self) -> None:
        """Serve until the time is over, a signal comes, or the server cannot be kept running."""
        signal.signal(signal.SIGTERM, lambda *_: self.stop_requested.set())
        self.report("starting")
        try:
            listener = socket.create_server(("127.0.0.1", self.document.port), backlog=512)
        except OSError as error:
            why = f"port {self.document.port} is in use: {error.strerror}"
            self.report("failed", reason=why)
            return
        with listener:
            if self.document.opens_port:
                listener.close()
            reason = self.keep(None if self.document.opens_port else listener)
        self.end(reason)

    def keep(self, listener: socket.socket | None) -> str:
        """Keep a server running; returns the reason when that is no longer possible."""
        while True:
            try:
                server = Server(self.document, listener, self.log)
            except OSError as error:  # the runtime was removed, or the host has no memory
                return f"the server could not be started: {error}"
            code = self.watch(server)
            if code is None:
                return ""
            self.crashes = [crash for crash in self.crashes if crash > time.monotonic() - WINDOW]
            self.crashes.append(time.monotonic())
            if (not self.served and code in NO_RESTART) or len(self.crashes) > len(PAUSES):
                why = "\n".join(self.log.last[-8:])
                return f"the server ended with {code}: {why}"
            restarts = self.state.restarts + 1
            self.report("restarting", restarts=restarts, reason=f"the server ended with {code}")
            if self.pause(PAUSES[len(self.crashes) - 1]):
                return ""

    def watch(self, server: Server) -> int | None:
        """Watch a server until it ends; returns its exit code, or None if the endpoint has to
        end."""
        try:
            while server.process.poll() is None:
                server.check_health()
                if server.health:
                    self.served = True
                    health = {k: v for k, v in vars(server.health).items() if v is not None}
                    self.report("ready", reason="", **health)
                else:
                    self.report(self.state.state)
                if time.monotonic() - server.responded > HUNG and server.health:
                    server.process.kill()
                if self.wait(0.25):
                    return None
            return server.process.returncode
        finally:
            server.end()

    def pause(self, seconds: float) -> bool:
        """As `wait`, with heartbeats: without them, the machine would count as free."""
        end = time.monotonic() + seconds
        while not self.wait(min(BEAT, max(0.0, end - time.monotonic()))):
            if time.monotonic() >= end:
                return False
            self.report(self.state.state)
        return True

    def wait(self, seconds: float) -> bool:
        """Wait; returns whether the endpoint has to end: a signal came, or its time is over."""
        self.stop_requested.wait(min(seconds, max(0.0, self.seconds_left())))
        return self.stop_requested.is_set() or self.seconds_left() <= 0

    def seconds_left(self) -> float:
        """The remaining time to live, which `fab deploy --update` may have changed."""
        with contextlib.suppress(OSError, ValueError):
            self.document = replace(self.document, until=read_document().until)
        return self.document.until - time.time()

    def report(self, state: str, **more: Any) -> None:
        """Write state.json."""
        until = self.document.until
        self.state = replace(self.state, state=state, heartbeat=time.time(), until=until, **more)
        with contextlib.suppress(OSError):
            json_file.save(path("state.json"), encode(self.state))

    def end(self, reason: str) -> None:
        """Write the last state; stop a stack's machine, unless a person ended the endpoint, or
        waits for its first start."""
        over = self.seconds_left() <= 0
        state = "failed" if reason else "ended"
        why = reason or (
            "its time-to-live is over" if over else "by undeploy, or the host shut down"
        )
        self.report(state, reason=why)
        if self.document.stop and (over or (reason and self.served)):
            self.report(state, machine=stop_machine(self.document.stop))


def read_document() -> EndpointDocument:
    """endpoint.json."""
    return decode(EndpointDocument, json_file.load(path("endpoint.json")))


def health_of(response: Any) -> Health | None:
    """The health in a response; None if no version is ready. TensorFlow Serving lists versions.
    Malformed: the response is neither a health nor a list of versions."""
    if isinstance(response, dict) and "model_version_status" in response:
        return decode(ServingStatus, response).health()
    return decode(Health, response)


def stop_machine(argv: Sequence[str]) -> str:
    """Stop this machine unless a run or another endpoint uses it; returns the outcome."""
    with machine_use.run_lock() as free:
        if not free or run_is_closing():
            return "left to a run"
        if other := machine_use.live_endpoint(besides=os.path.basename(FOLDER)):
            return f"left to endpoint {other}"
        why = bounded.run_also_after_us(argv, STOPPING).why
    return f"not stopped: {why}" if why else "stop command sent"


def run_is_closing() -> bool:
    """Whether a run that has ended still uploads its results, or will stop the machines. Such a run
    no longer has the lock, and if this machine stopped first, the other hosts would keep
    running."""
    runs = os.path.expanduser("~/.railhead/runs")
    return runs in map(os.path.dirname, programs.folders_of(programs.STOP_MACHINES))


def main() -> None:
    """Run the endpoint in whose folder this process works; one supervisor at a time."""
    os.makedirs(path("logs"), exist_ok=True)
    with locks.try_lock(path("lock")) as free:
        if not free:
            sys.exit("another supervisor has this endpoint")
        ServerProcess().run()
