"""Ports that are lent to a real host, and what comes by them."""

from __future__ import annotations

from typing import Any

import pytest
from e2e.local_hosts import wait_until
from paramiko.ssh_exception import SSHException

from bootstrap.errors import RailheadError
from bootstrap.ssh.port_forward import forward_port
from bootstrap.ssh.session import ConnectionLost, Session


@pytest.mark.usefixtures("either")
def test_a_port_of_the_host_leads_here_for_as_long_as_it_is_lent(session: Session) -> None:
    """Several connections at once, by the host's own bash; then nobody listens there."""

    def serve(channel: Any) -> None:
        line = channel.makefile("rb").readline()
        channel.sendall(b"here: " + line)
        channel.close()

    ask = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/{0}; echo {1} >&3; cat <&3' 2>&1"
    with forward_port(session, serve) as port:
        both = f"{ask.format(port, 'one')} & {ask.format(port, 'two')}; wait"
        assert sorted(session.sh(both).split("\n"))[-2:] == ["here: one", "here: two"]
    assert "refused" in session.sh(ask.format(port, "three"))


def test_a_host_that_forwards_no_ports_reports_so(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: Any) -> int:
        raise SSHException("TCP forwarding request denied")

    connection: Any = session.connection
    monkeypatch.setattr(connection.transport, "request_port_forward", denied)
    refusal = pytest.raises(RailheadError, match="does not forward ports")
    with refusal as refused, forward_port(session, lambda _: None):
        pass
    assert "AllowTcpForwarding yes" in refused.value.hint


@pytest.mark.usefixtures("either")
def test_a_connection_that_is_gone_is_reported_as_that(session: Session) -> None:
    session.close()
    with pytest.raises(ConnectionLost), forward_port(session, lambda _: None):
        pass


def test_others_than_the_host_itself_are_not_let_in_by_its_port(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With GatewayPorts an sshd listens for the whole network."""
    came: list[Any] = []

    def forward(_address: str, _port: int, come: Any) -> int:
        for origin in ("10.0.0.9", "127.0.0.1"):
            come(Channel(came), (origin, 1), ("", 1))
        return 1

    connection: Any = session.connection
    monkeypatch.setattr(connection.transport, "request_port_forward", forward)
    with forward_port(session, lambda _: came.append("served")):
        wait_until(lambda: len(came) == 2, 5, "both are answered")
    assert came == ["closed", "served"]


class Channel:
    """What a forwarded connection is, as far as it is needed."""

    def __init__(self, came: list[Any]) -> None:
        self.came = came

    def close(self) -> None:
        self.came.append("closed")
