"""A TCP relay before a server that is slow, cuts connections, stalls, or changes what it carries.

Bandwidth is shared by all connections, as on a network link.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
import time
from typing import Any
from urllib.parse import urlsplit

PIECE = 1 << 16


class Relay:
    """`endpoint` leads to the same server. The first `cuts` connections that carry more than
    `cut_after` bytes to the client are closed there; of the first `stalls` that carry more than
    `stall_after`, nothing more comes. `replaces` are bytes that a client sends, and those that the
    server gets in their place."""

    def __init__(
        self,
        endpoint: str,
        *,
        bytes_per_s: float = 0,
        cut_after: int = 0,
        cuts: int = 0,
        stall_after: int = 0,
        stalls: int = 0,
        replaces: tuple[bytes, bytes] = (b"", b""),
    ) -> None:
        url = urlsplit(endpoint)
        self.upstream = (url.hostname or "", url.port or 80)
        self.rate, self.cut_after, self.stall_after = bytes_per_s, cut_after, stall_after
        self.cuts, self.stalls, self.was_cut = cuts, stalls, 0
        self.replaces = replaces
        self.lock, self.free_at, self.ended = threading.Lock(), 0.0, threading.Event()

        class Handler(socketserver.BaseRequestHandler):
            def handle(handler) -> None:  # noqa: N805
                with contextlib.suppress(OSError):
                    self.relay(handler.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> Relay:
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()

    def relay(self, client: socket.socket) -> None:
        """Both directions of one connection."""
        with socket.create_connection(self.upstream) as upstream:
            threading.Thread(target=self.requests, args=(client, upstream), daemon=True).start()
            carried = 0
            while data := upstream.recv(PIECE):
                carried += len(data)
                if self.takes("cuts", carried, self.cut_after):
                    self.was_cut += 1
                    return
                if self.takes("stalls", carried, self.stall_after):
                    self.ended.wait(60)
                    return
                self.wait_for_turn(len(data))
                client.sendall(data)

    def requests(self, client: socket.socket, upstream: socket.socket) -> None:
        """What the client sends."""
        with contextlib.suppress(OSError):
            while data := client.recv(PIECE):
                upstream.sendall(data.replace(*self.replaces) if self.replaces[0] else data)
            upstream.shutdown(socket.SHUT_WR)

    def takes(self, faults: str, carried: int, after: int) -> bool:
        """Whether one of the cuts or stalls is due; it is used up then."""
        with self.lock:
            remaining = getattr(self, faults)
            if not after or carried <= after or not remaining:
                return False
            setattr(self, faults, remaining - 1)
            return True

    def wait_for_turn(self, size: int) -> None:
        """Wait until the link has carried what came before."""
        if not self.rate:
            return
        with self.lock:
            begin = max(self.free_at, time.monotonic())
            self.free_at = begin + size / self.rate
        time.sleep(max(0.0, self.free_at - time.monotonic()))
