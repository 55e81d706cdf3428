"""The relay before TensorFlow Serving's program: what it passes on, what it refuses, and when."""

from __future__ import annotations

import json
import os
import resource
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

from bootstrap.host.serve import http_relay
from bootstrap.host.serve.http_relay import Relay

HOST = b"Host: 127.0.0.1:1\r\n"
POST = b"POST /v1/models/m:predict HTTP/1.1\r\n" + HOST
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def listening() -> socket.socket:
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(20)
    return server


@contextmanager
def relayed() -> Iterator[tuple[socket.socket, Relay]]:
    """A listening server, and a relay to it that accepts."""
    with listening() as server, listening() as listener:
        listener.settimeout(None)
        relay = Relay(listener, server.getsockname())
        threading.Thread(target=accept_until_closed, args=(relay,), daemon=True).start()
        try:
            yield server, relay
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def accept_until_closed(relay: Relay) -> None:
    with suppress(OSError):
        relay.run()


def client_of(relay: Relay) -> socket.socket:
    return socket.create_connection(relay.listener.getsockname(), timeout=60)


def received(connection: socket.socket, end: bytes = b"") -> bytes:
    """What comes until this end, or until the connection closes."""
    received = b""
    while not (end and received.endswith(end)) and (data := connection.recv(1 << 16)):
        received += data
    return received


def test_each_request_has_a_connection_of_its_own() -> None:
    """A second one on the same connection would not be checked."""
    evil = POST + b"Origin: http://evil.example\r\nContent-Length: 0\r\n\r\n"
    with relayed() as (server, relay), client_of(relay) as client:
        client.sendall(POST + b"Connection: keep-alive\r\nContent-Length: 2\r\n\r\nab" + evil)
        with server.accept()[0] as connection:
            connection.settimeout(20)
            head, _, body = received(connection, b"ab").partition(b"\r\n\r\n")
            assert b"Connection: close" in head and b"keep-alive" not in head and body == b"ab"
            connection.sendall(ANSWER)
        assert received(client) == ANSWER


HEADS = {
    "another name": (POST.replace(b"127.0.0.1", b"evil.example") + b"\r\n", 403),
    "another page": (POST + b"Origin: http://evil.example\r\n\r\n", 403),
    "two names": (POST + HOST + b"\r\n", 400),
    "no size": (POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
    "two sizes": (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
    "headers in the first line": (
        b"GET / HTTP/1.1\nOrigin: http://e.example\r\n" + HOST + b"\r\n",
        400,
    ),
    "no version": (b"GET /\r\n" + HOST + b"\r\n", 400),
    "no number": (POST + b"Content-Length: -1\r\n\r\n", 400),
    "too long": (POST + b"X: " + b"x" * 100_000, 431),
}


@pytest.mark.parametrize(("request_", "status"), HEADS.values(), ids=HEADS)
def test_a_refused_request_does_not_reach_the_server(request_: bytes, status: int) -> None:
    with relayed() as (server, relay), client_of(relay) as client:
        client.sendall(request_)
        client.shutdown(socket.SHUT_WR)
        head, _, body = received(client).partition(b"\r\n\r\n")
        assert int(head.split()[1]) == status and list(json.loads(body)) == ["error"]
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("sent", [b"", b"GET / HT", POST + b"Content-Length: 2\r\n\r\na"])
def test_a_request_that_does_not_arrive_is_given_up(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HEAD_SECONDS", "BODY_SECONDS"):
        monkeypatch.setattr(http_relay, name, 0.2)
    with relayed() as (_, relay), client_of(relay) as client:
        client.sendall(sent)
        assert received(client).split()[1] == b"408"


def test_clients_that_never_end_their_bodies_hold_up_nobody() -> None:
    with relayed() as (server, relay), ThreadPoolExecutor(1) as pool:
        slow = [client_of(relay) for _ in range(300)]
        for client in slow:
            client.sendall(POST)

        def asks() -> bytes:
            with client_of(relay) as client:
                client.sendall(POST + b"Content-Length: 0\r\n\r\n")
                return received(client)

        answer = pool.submit(asks)
        with server.accept()[0] as connection:
            connection.settimeout(20)
            received(connection, b"\r\n\r\n")
            connection.sendall(ANSWER)
        assert answer.result(20) == ANSWER
        for client in slow:
            client.close()


def test_a_client_that_has_gone_leaves_no_connection_to_the_server() -> None:
    with relayed() as (server, relay), client_of(relay) as client:
        client.sendall(POST + b"Content-Length: 0\r\n\r\n")
        with server.accept()[0] as connection:
            connection.settimeout(20)
            assert received(connection, b"\r\n\r\n")
            reset = struct.pack("ii", 1, 0)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            client.close()
            assert connection.recv(9) == b""
    relay.finish()
    assert not relay.waiting


def test_a_client_that_waits_before_it_sends_a_large_body_may_send_it() -> None:
    with relayed() as (server, relay), client_of(relay) as client:
        client.sendall(POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        with server.accept()[0] as connection:
            connection.settimeout(20)
            assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.sendall(b"ab")
            assert b"Expect" not in received(connection, b"ab")
            connection.sendall(ANSWER)
        assert received(client) == ANSWER


def test_connections_wait_where_no_file_can_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """More clients than this process may have files do not end the relay."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    paused = threading.Event()

    def pause(_: float) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        paused.set()

    monkeypatch.setattr(http_relay, "pause", pause, raising=False)
    with listening() as server, listening() as listener:
        listener.settimeout(None)
        relay = Relay(listener, server.getsockname())
        with client_of(relay) as client:
            client.sendall(POST + b"Content-Length: 0\r\n\r\n")
            free = os.dup(client.fileno())
            os.close(free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
            try:
                threading.Thread(target=accept_until_closed, args=(relay,), daemon=True).start()
                assert paused.wait(60)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            with server.accept()[0] as connection:
                connection.settimeout(20)
                received(connection, b"\r\n\r\n")
                connection.sendall(ANSWER)
            assert received(client) == ANSWER
        listener.shutdown(socket.SHUT_RDWR)
