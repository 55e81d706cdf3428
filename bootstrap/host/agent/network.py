"""The network between hosts: free ports, and connection tests."""

from __future__ import annotations

import contextlib
import os
import socket
import threading

from railhead.documents.agent.network import (
    SMALL_ONLY,
    Dial,
    Dialed,
    FindPort,
    FoundPort,
    FreePorts,
    Listen,
    Port,
    Ports,
)

from .channel import operations

HELLO = b"railhead\n"
LARGE = 8000  # bytes: one jumbo packet of Ethernet, and no second round trip
OUTGOING = "/proc/sys/net/ipv4/ip_local_port_range"  # the kernel's ports of outgoing connections
LOWEST = 20_000
TRIES = 20
LISTENERS: list[socket.socket] = []


def listen(request: Listen) -> Port:
    """Open a port for test connections of peers; it accepts them until this agent ends."""
    family = socket.AF_INET6 if ":" in request.address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind((request.address, 0))
    listener.listen(256)
    LISTENERS.append(listener)
    threading.Thread(target=answer_calls, args=(listener,), daemon=True).start()
    return Port(listener.getsockname()[1])


def answer_calls(listener: socket.socket) -> None:
    """Send HELLO to every connection, so that the peer knows an agent answers, then LARGE bytes in
    packets of their own."""
    while True:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sendall(HELLO)
                connection.sendall(bytes(LARGE))


def dial(request: Dial) -> Dialed:
    """Connect to all peers in parallel."""
    from concurrent.futures import ThreadPoolExecutor  # most agents do not dial

    with ThreadPoolExecutor(len(request.peers) or 1) as pool:
        errors = pool.map(lambda peer: call(peer, request.timeout), request.peers)
        return Dialed(tuple(errors))


def call(peer: tuple[str, int], timeout: float) -> str | None:
    """Connect to an agent at this address and port, for `timeout` seconds; returns None on success,
    or the reason."""
    try:
        with socket.create_connection(peer, timeout) as connection:
            connection.settimeout(timeout)
            if connection.recv(len(HELLO)) != HELLO:
                return "another program answered"
            try:
                connection.recv(LARGE, socket.MSG_WAITALL)
            except TimeoutError:
                return SMALL_ONLY
            return None
    except OSError as error:
        return str(error) or type(error).__name__


def free_port(request: FindPort) -> FoundPort:
    """The first port of 127.0.0.1 in a range that nothing listens on, or None."""
    for port in range(request.first, request.last + 1):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return FoundPort(port)
    return FoundPort(None)


def ports(request: Ports) -> FreePorts:
    """Different ports that are free on every address now. If possible, none that the kernel uses
    for outgoing connections: one could take the port before the rank starts."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(request.count)]
        return FreePorts(tuple(_bound(unbound) for unbound in sockets))


def _bound(unbound: socket.socket) -> int:
    """Bind to a free port; returns its number."""
    for port in _random_ports():
        with contextlib.suppress(OSError):
            unbound.bind(("", port))
            return port
    unbound.bind(("", 0))
    return int(unbound.getsockname()[1])


def _random_ports() -> tuple[int, ...]:
    """Some ports below those of outgoing connections; none if there is no room."""
    try:
        with open(OUTGOING) as file:
            room = int(file.read().split()[0]) - LOWEST
    except (OSError, ValueError, IndexError):
        return ()
    if room <= 0:
        return ()
    return tuple(LOWEST + int.from_bytes(os.urandom(4), "big") % room for _ in range(TRIES))


OPS = operations((Listen, listen), (Dial, dial), (Ports, ports), (FindPort, free_port))
