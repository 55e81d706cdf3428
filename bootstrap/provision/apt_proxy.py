"""An HTTP proxy on this computer for the apt of a host without outbound access.

The host reaches it through a port forward of its SSH connection. apt still checks signatures. The
proxy serves only the mirrors that the plan names, and no address of this computer or its network.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from ..facts.egress import origin
from ..inventory import caches
from ..ssh.port_forward import forward_port
from ..ssh.session import Session
from . import apt_upstream
from .apt_cache import PIECE, DownloadCache

# Request headers that are passed on. Range is not: the shared file must be complete for all hosts.
PASSED = ("Authorization", "If-Modified-Since", "User-Agent")
KEPT = ("Content-Type", "Last-Modified", "Location")
# Allows no user name and no special character that two URL parsers could read differently.
ADDRESS = re.compile(r"http://([\w.-]+|\[[\da-fA-F:.]+\])(:\d+)?/\S*", re.ASCII)


class AptProxy:
    """One proxy for all hosts of a command: a file that several hosts request is fetched once."""

    def __init__(self, folder: Path) -> None:
        self._files = DownloadCache(folder)

    @contextlib.contextmanager
    def on(self, session: Session, mirrors: Sequence[str]) -> Iterator[str]:
        """The proxy's address on the host while the block runs; empty without mirrors (like
        http://mirror.example). RailheadError: the host's sshd forwards no ports."""
        if not mirrors:
            yield ""
            return
        allowed, files, host = frozenset(mirrors), self._files, session.host.name

        def serve(channel: Any) -> None:
            # The host may close the channel at any time; apt repeats the request.
            with contextlib.closing(channel), contextlib.suppress(OSError, EOFError, ValueError):
                _RequestHandler(channel, host, allowed, files)

        with forward_port(session, serve) as port:
            yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def apt_proxy() -> Iterator[AptProxy]:
    """A proxy with a temporary folder; removes the folders of killed processes first. UsageError:
    the networks of mirrors that this computer names are not networks."""
    apt_upstream.mirror_networks()
    place = caches.cache("apt")
    place.mkdir(parents=True, exist_ok=True)
    for stale in place.glob("*-*"):
        try:
            os.kill(int(stale.name.partition("-")[0]), 0)
        except (ProcessLookupError, ValueError):
            shutil.rmtree(stale, ignore_errors=True)
        except PermissionError:
            pass  # another user's process has that pid now
    prefix = f"{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place, ignore_cleanup_errors=True) as name:
        yield AptProxy(Path(name))


class _RequestHandler(BaseHTTPRequestHandler):
    """Handles the requests of one apt connection, one after the other."""

    protocol_version = "HTTP/1.1"

    def __init__(
        self, channel: Any, host: str, mirrors: frozenset[str], files: DownloadCache
    ) -> None:
        self.host, self.mirrors, self.files = host, mirrors, files
        super().__init__(channel, ("", 0), None)  # type: ignore[arg-type]  # it has no server

    def do_GET(self) -> None:
        """Serve a file of an http mirror."""
        if not self._allowed(origin(self.path) if ADDRESS.fullmatch(self.path) else "that"):
            return
        headers = {name: self.headers[name] for name in PASSED if name in self.headers}
        file = self.files.open(self.path, headers, self.host)
        file.started.wait()
        self.send_response(file.status, file.reason)
        for name in KEPT:
            if name in file.headers:
                self.send_header(name, file.headers[name])
        self.send_header("Content-Length", str(file.length))
        self.end_headers()
        try:
            # If bytes are missing, close the connection; otherwise apt waits for the rest.
            self.close_connection |= self._send(file.pieces()) != file.length
        finally:
            self.files.release(self.path, file)

    def _send(self, pieces: Iterator[bytes]) -> int:
        sent = 0
        for piece in pieces:
            self.wfile.write(piece)
            sent += len(piece)
        return sent

    def do_CONNECT(self) -> None:
        """Open a tunnel to an https mirror; the proxy does not read its content."""
        self.close_connection = True
        host, _, port = self.path.rpartition(":")
        host = host.strip("[]")
        if not self._allowed(origin(f"https://{f'[{host}]' if ':' in host else host}:{port}")):
            return
        try:
            upstream = apt_upstream.connect(host, int(port))
        except apt_upstream.PrivateAddress as error:
            self._answer(403, str(error))
            return
        except OSError as error:
            self._answer(502, f"This computer gets no answer either: {error}")
            return
        with upstream:
            upstream.settimeout(None)
            self._answer(200, "Connection established")
            threading.Thread(target=_copy, args=(self.connection, upstream), daemon=True).start()
            _copy(upstream, self.connection)

    def _allowed(self, place: str) -> bool:
        if place not in self.mirrors:
            self._answer(403, f"{place} is not a mirror of this host")
        return place in self.mirrors

    def _answer(self, status: int, reason: str) -> None:
        self.send_response(status, reason)
        if status != 200:
            self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Log nothing: apt reports errors itself."""


def _copy(source: Any, sink: Any) -> None:
    """Copy bytes from source to sink until the source ends."""
    with contextlib.suppress(OSError, EOFError):
        for piece in iter(lambda: source.recv(PIECE), b""):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
