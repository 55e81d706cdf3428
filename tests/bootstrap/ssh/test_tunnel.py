"""A local port that leads to a port of a real host."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e.local_hosts import wait_until
from paramiko.ssh_exception import SSHException

from bootstrap.errors import RailheadError, UsageError
from bootstrap.inventory import local_state
from bootstrap.lifecycle import reach
from bootstrap.ssh.session import ConnectionLost, Session
from bootstrap.ssh.tunnel import ForwardingOff, open_channel, require_open, tunnel

# Answers each connection with what it sent, after the client has finished sending.
ECHO = """
import socketserver, sys
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"got " + self.rfile.read())
with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever()
"""


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server; local hosts share the loopback interface of this machine."""
    with subprocess.Popen([sys.executable, "-c", ECHO], stdout=subprocess.PIPE) as process:
        assert process.stdout
        yield int(process.stdout.readline())
        process.kill()


def ask(port: int, text: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


@pytest.mark.usefixtures("either")
def test_both_ways_and_all_bytes(session: Session, echo: int) -> None:
    with tunnel(session, echo, 0) as port:
        assert ask(port, b"x" * 1_000_000) == b"got " + b"x" * 1_000_000
        assert [ask(port, b"%d" % n) for n in range(3)] == [b"got 0", b"got 1", b"got 2"]
    with pytest.raises(OSError):
        ask(port, b"")


@pytest.mark.parametrize("error", [EOFError(), ConnectionResetError(), SSHException("closed")])
def test_a_connection_that_ends_meanwhile_is_an_error_of_ours(
    session: Session, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def raises(*_: object, **__: object) -> None:
        raise error

    connection: Any = session.connection
    monkeypatch.setattr(connection.transport, "open_channel", raises)
    with pytest.raises(RailheadError, match="port 80 of h1"):
        open_channel(session, 80)


@pytest.mark.usefixtures("either")
def test_nothing_behind_the_port_closes_the_connection(session: Session) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        unused = int(probe.getsockname()[1])
    with tunnel(session, unused, 0) as port:
        assert ask(port, b"") == b""


@pytest.mark.usefixtures("either")
def test_a_host_that_forwards_no_ports_is_an_error_before_anything_listens(
    session: Session, home_of_session: Path
) -> None:
    """sshd takes AllowTcpForwarding from its configuration, and the same from a key's options."""
    folder = local_state.cluster_folder("tunnel") / "hosts/h1/home/.ssh"
    keys = folder / "authorized_keys"
    text = keys.read_text()
    keys.write_text("".join(f"no-port-forwarding {line}\n" for line in text.splitlines()))
    try:
        with (
            reach.sessions(local_state.load_cluster("tunnel")) as opened,
            socket.socket() as probe,
        ):
            probe.bind(("127.0.0.1", 0))
            free = int(probe.getsockname()[1])
            probe.close()
            off = pytest.raises(ForwardingOff, match=f"sshd of h1 does not forward port {free}")
            with off, tunnel(opened["h1"], free, free):
                pass
            socket.create_server(("127.0.0.1", free)).close()  # still free
    finally:
        keys.write_text(text)


def test_what_a_broken_client_has_sent_ends_on_the_host(session: Session) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(60)
    with server, tunnel(session, server.getsockname()[1], 0) as port:
        server.accept()[0].close()  # whether the host forwards ports
        client = socket.create_connection(("127.0.0.1", port))
        served, _ = server.accept()
        served.settimeout(60)
        client.sendall(b"half")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert served.recv(4) == b"half"
        client.close()  # a reset, not an end
        with served:
            assert served.recv(1) == b""


def test_no_other_machine_is_let_in(session: Session, echo: int) -> None:
    """127.0.0.2 stands for an address of this machine in a network."""
    with tunnel(session, echo, 0) as port:
        socket.create_connection(("127.0.0.1", port)).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port))


def test_a_local_port_in_use_is_refused(session: Session) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
        refusal = pytest.raises(UsageError, match=f"port {port} of this computer cannot be used")
        with refusal, tunnel(session, 1, port):
            pass


@pytest.mark.usefixtures("either")
def test_a_connection_that_ends_is_noticed(session: Session) -> None:
    require_open(session)
    session.close()
    wait_until(lambda: not session.connection.is_connected, 60, "it is closed")
    with pytest.raises(ConnectionLost):
        require_open(session)
