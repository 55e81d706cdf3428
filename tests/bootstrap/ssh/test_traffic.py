"""The counted traffic to a host is what the host itself counted."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.operator import Cluster, Operator, named

from bootstrap.clouds.local import cluster as local_cluster
from bootstrap.errors import HostsNotReady
from bootstrap.inventory.hosts import Host
from bootstrap.lifecycle import reach
from bootstrap.ssh import traffic
from bootstrap.ssh.login.hop import LOGIN_TRIES
from railhead.documents.agent.files import TextFile


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two hosts that anybody with the cluster's key may enter."""
    yield Cluster(local_cluster.start("traffic", 2))
    local_cluster.destroy("traffic")


@pytest.fixture
def operator(home: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Operator:
    """Somebody who has met no host yet and may enter all."""
    monkeypatch.setattr(traffic, "_hosts", {})
    operator = Operator(home)
    operator.has(cluster.key)
    operator.knows(*cluster.machines)
    return operator


def logins(cluster: Cluster, index: int) -> int:
    """How often somebody got in there, by its sshd's log."""
    log = (cluster.machines[index].folder / "sshd.log").read_text()
    return log.count("Accepted publickey")


def test_each_connection_is_counted_as_its_host_counts_it(
    operator: Operator, cluster: Cluster
) -> None:
    before = logins(cluster, 0)
    for _ in range(3):
        with reach.sessions(named(cluster.host(0))):
            pass
    assert traffic.host_traffic("h1").connections == logins(cluster, 0) - before == 3
    assert traffic.host_traffic("h2").connections == 0


def test_all_bytes_that_leave_are_counted(operator: Operator, cluster: Cluster) -> None:
    with reach.sessions(named(cluster.host(0))) as opened:
        opened["h1"].start_agent("python3")
        before = traffic.host_traffic("h1").sent
        opened["h1"].write(TextFile("~/x", os.urandom(1 << 20).hex()))
    assert 1.0 < (traffic.host_traffic("h1").sent - before) / (2 << 20) < 1.1


def test_a_jump_on_the_way_is_a_connection_too(operator: Operator, cluster: Cluster) -> None:
    jump, inner = cluster.machines
    blocks = (
        f"Host {name}\n  HostName {m.address}\n  Port {m.port}\n  User {cluster.user}\n  {more}\n"
        for name, m, more in (("jump", jump, ""), ("inner", inner, "ProxyJump jump"))
    )
    operator.configures("".join(blocks))
    with reach.sessions(named(Host("inner", "inner"))):
        pass
    assert traffic.host_traffic("inner").connections == 2


def test_what_was_tried_again_is_counted_again(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.uniform", lambda *_: 0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_hang_up, args=(server, LOGIN_TRIES), daemon=True).start()
        busy = Host("busy", "127.0.0.1", port=server.getsockname()[1])
        with pytest.raises(HostsNotReady), reach.sessions(named(busy)):
            pass
    assert traffic.host_traffic("busy").connections == LOGIN_TRIES


def _hang_up(server: socket.socket, times: int) -> None:
    for _ in range(times):
        server.accept()[0].close()


def test_what_never_answered_is_not_a_connection(operator: Operator) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = Host("closed", "127.0.0.1", port=server.getsockname()[1])
    with pytest.raises(HostsNotReady), reach.sessions(named(closed)):
        pass
    assert traffic.host_traffic("closed").connections == 0


def test_it_is_reported_briefly() -> None:
    now = time.monotonic()
    assert traffic.Traffic(now - 41, 1, 88_200_000).summary() == "41 s, 1 connection, 88 MB sent"
    assert traffic.Traffic(now - 100, 2, 812).summary() == "1 min 40 s, 2 connections, 812 B sent"


@pytest.mark.skipif(not traffic.QUICK_ACK, reason="this system has no TCP_QUICKACK")
def test_what_is_received_is_acknowledged_at_once() -> None:
    """Also after something was sent, by which Linux begins to delay; a pipe to a proxy has none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        plain = socket.create_connection(server.getsockname())
        prompt = traffic.HostSocket(
            socket.create_connection(server.getsockname()), traffic.Traffic()
        )
        assert [quick_after_a_reply(end, server.accept()[0]) for end in (plain, prompt)] == [0, 1]
    ours, others = socket.socketpair()
    assert quick_after_a_reply(traffic.HostSocket(ours, traffic.Traffic()), others) is None


def quick_after_a_reply(end: socket.socket, other: socket.socket) -> int | None:
    """Whether the kernel acknowledges at once, after a few questions and answers."""
    with end, other:
        for _ in range(3):
            end.send(b"question")
            other.send(other.recv(10))
            assert end.recv(10) == b"question"
        is_tcp = end.family == socket.AF_INET
        return end.getsockopt(socket.IPPROTO_TCP, traffic.QUICK_ACK) if is_tcp else None
