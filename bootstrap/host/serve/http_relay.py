"""Forwards HTTP requests from a listening socket to a server that cannot check them itself.

Each connection carries one request, which is checked and has a thread with a time limit.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import re
import resource
import selectors
import socket
import threading
import time
from email.message import Message
from http import HTTPStatus
from http.client import HTTPException, parse_headers

from railhead.documents.serving import local_requests

CONNECTIONS = 1024  # further ones wait
FILES = 4 * CONNECTIONS  # two for each connection, and the program's own
NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED)
PAUSE = 0.1  # seconds until a connection that could not be accepted is tried again
HEAD_SECONDS, BODY_SECONDS = 10.0, 60.0  # for a request to arrive
READ_SECONDS = 60.0  # for a client to read some bytes of its response
LINGER = 2.0  # seconds for which a refused client may still send
LONGEST_HEAD = 1 << 16  # bytes
PIECE = 1 << 16
GRACE = 10.0  # seconds for the requests in progress at the end
FIRST_LINE = re.compile(rb"[A-Z]+ [\x21-\x7e]+ HTTP/1\.[01]")
ONCE = ("host", "content-length")  # headers that may occur only once
OF_CONNECTION = ("connection", "keep-alive", "expect")  # headers that are not forwarded


class Refused(Exception):
    """The request is answered with this status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Relay:
    """Accepts the connections of a socket; `server` is the address of the server."""

    def __init__(self, listener: socket.socket, server: tuple[str, int]) -> None:
        self.listener, self.server = listener, server
        self.free = threading.BoundedSemaphore(CONNECTIONS)
        self.waiting: set[socket.socket] = set()  # clients whose request the server has

    def run(self) -> None:
        """Accept connections for ever."""
        while True:
            self.free.acquire()
            client = accepted(self.listener)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def finish(self) -> None:
        """Wait for the requests in progress, at most GRACE seconds."""
        end = time.monotonic() + GRACE
        while self.waiting and time.monotonic() < end:
            time.sleep(0.05)

    def _serve(self, client: socket.socket) -> None:
        try:
            with client:
                try:
                    self._relay(client)
                except Refused as refused:
                    refuse(client, refused)
        except OSError:
            pass  # one side has closed
        finally:
            self.waiting.discard(client)
            self.free.release()

    def _relay(self, client: socket.socket) -> None:
        head, first = read_head(client)
        line, headers = parse_head(head)
        size = body_size(headers)
        if "expect" in headers:
            client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        with socket.create_connection(self.server) as server:
            server.sendall(passed_on(line, headers) + first[:size])
            send_body(client, server, size - len(first))
            self.waiting.add(client)
            send_back(server, client)


def accepted(listener: socket.socket) -> socket.socket:
    """The next connection; waits while the host or this process lacks resources for it."""
    while True:
        try:
            return listener.accept()[0]
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            pause(PAUSE)


def pause(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)


def allow_files() -> None:
    """Let this process open a file for each side of each connection, as far as the host allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def read_head(client: socket.socket) -> tuple[bytes, bytes]:
    """The head of a request, and the part of its body that came with it. Refused: it is too long,
    or does not arrive in time."""
    data, end = b"", time.monotonic() + HEAD_SECONDS
    while b"\r\n\r\n" not in data:
        if len(data) > LONGEST_HEAD:
            raise Refused(431, f"the head of a request has at most {LONGEST_HEAD} bytes")
        data += receive(client, end)
    head, _, first = data.partition(b"\r\n\r\n")
    return head, first


def parse_head(head: bytes) -> tuple[bytes, Message]:
    """The first line and the headers of a request that comes from this computer; Refused for all
    others."""
    line, _, rest = head.partition(b"\r\n")
    if not FIRST_LINE.fullmatch(line):  # a line break in it would start unchecked headers
        raise Refused(400, "Malformed request: the first line must be METHOD PATH HTTP/1.1")
    try:
        headers = parse_headers(io.BytesIO(rest + b"\r\n\r\n"))
    except HTTPException as error:
        raise Refused(400, f"Malformed request: {error}") from None
    for name in ONCE:
        if len(headers.get_all(name, ())) > 1:
            raise Refused(400, f"Malformed request: several headers {name.title()}")
    if why := local_requests.refusal(headers.get):
        raise Refused(local_requests.FORBIDDEN, why)
    return line, headers


def body_size(headers: Message) -> int:
    """The bytes of the body; Refused if the head does not have their number."""
    if "transfer-encoding" in headers:
        raise Refused(411, "the request must have the header Content-Length")
    size = headers.get("content-length", "0").strip()
    if not (size.isascii() and size.isdecimal() and len(size) < 16):
        raise Refused(400, "Malformed request: Content-Length must be a number")
    return int(size)


def passed_on(line: bytes, headers: Message) -> bytes:
    """The head for the server, which closes the connection after its response."""
    lines = [
        f"{name}: {text}".encode("latin-1")
        for name, text in headers.items()
        if name.lower() not in OF_CONNECTION
    ]
    return b"\r\n".join([line, *lines, b"Connection: close", b"", b""])


def send_body(client: socket.socket, server: socket.socket, missing: int) -> None:
    """Forward `missing` bytes of a body; Refused if they do not arrive in time."""
    end = time.monotonic() + BODY_SECONDS
    while missing > 0:
        data = receive(client, end)
        server.sendall(data[:missing])
        missing -= len(data)


def send_back(server: socket.socket, client: socket.socket) -> None:
    """Forward a response until the server or the client closes."""
    client.settimeout(READ_SECONDS)
    with selectors.PollSelector() as selector:  # needs no file descriptor
        for side in (server, client):
            selector.register(side, selectors.EVENT_READ)
        while True:
            ready = [key.fileobj for key, _ in selector.select()]
            if client in ready and not client.recv(PIECE):
                return
            if server in ready:
                if not (data := server.recv(PIECE)):
                    return
                client.sendall(data)


def receive(client: socket.socket, end: float) -> bytes:
    """Some bytes from a client, before the time `end`. Refused: none came in time. ConnectionError:
    the client has closed."""
    client.settimeout(max(0.001, end - time.monotonic()))
    try:
        data = client.recv(PIECE)
    except TimeoutError:
        raise Refused(408, "the request did not arrive in time") from None
    if not data:
        raise ConnectionResetError
    return data


def refuse(client: socket.socket, refused: Refused) -> None:
    """Answer with the refusal, then read what the client still sends: otherwise it might not see
    the answer."""
    body = json.dumps({"error": str(refused)}).encode()
    head = (
        f"HTTP/1.1 {refused.status} {HTTPStatus(refused.status).phrase}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    )
    client.settimeout(LINGER)
    client.sendall(head.encode() + b"\r\n" + body)
    client.shutdown(socket.SHUT_WR)
    end = time.monotonic() + LINGER
    with contextlib.suppress(Refused, ConnectionError):
        while True:
            receive(client, end)
