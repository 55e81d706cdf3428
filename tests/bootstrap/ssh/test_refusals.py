"""An sshd that refuses an address for a while, and one that has no algorithm for us.

The sentence is that of OpenSSH 10.0 (Debian 13), which sends it in place of its banner.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hosts.operator import Cluster, Operator, make_key, named

from bootstrap.clouds.local import cluster as local_cluster
from bootstrap.console.wait import wait_until
from bootstrap.errors import HostsNotReady
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.lifecycle import reach
from bootstrap.ssh import connect, traffic
from bootstrap.ssh.host_keys import UnknownHostKey
from bootstrap.ssh.login import refusals, route
from bootstrap.ssh.login.hop import Hop

SENTENCE = b"Not allowed at this time\r\n"
MANY = 16


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    yield Cluster(local_cluster.start("refusals", 2))
    local_cluster.destroy("refusals")


@pytest.fixture
def operator(home: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Operator:
    """Somebody who may enter all, and has met none."""
    monkeypatch.setattr(traffic, "_hosts", {})
    monkeypatch.setattr(refusals, "_ways", {})
    operator = Operator(home)
    operator.has(cluster.key)
    return operator


def behind(operator: Operator, cluster: Cluster, key: Path | None = None) -> list[Host]:
    """Many names of one host behind the other."""
    jump, inner = cluster.machines
    text = f"Host jump\n  HostName {jump.address}\n  Port {jump.port}\n  User {cluster.user}\n"
    text += f"  IdentityFile {key}\n  IdentitiesOnly yes\n" if key else ""
    names = [f"inner{number}" for number in range(MANY)]
    text += f"Host inner*\n  HostName {inner.address}\n  Port {inner.port}\n"
    operator.configures(f"{text}  User {cluster.user}\n  ProxyJump jump\n")
    return [Host(name, name) for name in names]


def connections(hosts: list[Host]) -> int:
    return sum(traffic.host_traffic(host.name).connections for host in hosts)


def test_an_unknown_jump_host_is_tried_once_for_all_hosts(
    operator: Operator, cluster: Cluster
) -> None:
    hosts = behind(operator, cluster)
    with connect.open_sessions(named(*hosts)) as opened:
        assert len(opened.failed) == MANY
        assert {type(error) for error in opened.failed.values()} == {UnknownHostKey}
    assert connections(hosts) == 1
    operator.knows(*cluster.machines)  # a later command of the same process tries again
    with reach.sessions(named(*hosts)) as sessions:
        assert len(sessions) == MANY
    assert connections(hosts) == 1 + 2 * MANY


def test_a_jump_host_is_tried_once_also_for_a_host_whose_settings_are_read_for_long(
    operator: Operator, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = hosts = behind(operator, cluster)
    real = route.way

    def has_refused() -> bool:
        return any(way.error for way in refusals._ways.values())

    def way(host: Host, inventory: Inventory) -> list[Hop]:
        if host is not first:
            assert wait_until(has_refused, seconds=60, every=0.01)
        return real(host, inventory)

    monkeypatch.setattr(connect, "way", way)
    with connect.open_sessions(named(*hosts)) as opened:
        assert len(opened.failed) == 1 + len(others)
    assert connections(hosts) == 1


def test_a_jump_host_that_accepts_no_key_is_tried_once(
    operator: Operator, cluster: Cluster, tmp_path: Path
) -> None:
    operator.knows(*cluster.machines)
    hosts = behind(operator, cluster, make_key(tmp_path / "another"))
    with connect.open_sessions(named(*hosts)) as opened:
        assert all("none of your keys is accepted" in reason for reason in opened.reasons.values())
    assert connections(hosts) == 1


def outcome(host: Host) -> str:
    """Why a host cannot be reached."""
    with pytest.raises(HostsNotReady) as caught, reach.sessions(named(host)):
        pass
    return caught.value.outcomes["h1"]


@contextmanager
def refusing(sentence: bytes, accepted: list[int]) -> Iterator[Host]:
    """Something that closes each connection after a sentence."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection = server.accept()[0]
                except OSError:
                    return
                accepted.append(1)
                connection.sendall(sentence)
                connection.close()

        threading.Thread(target=serve, daemon=True).start()
        yield Host("h1", "127.0.0.1", port=server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)


def test_a_penalty_is_shown_in_sshds_words_and_not_tried_again(operator: Operator) -> None:
    accepted: list[int] = []
    with refusing(SENTENCE, accepted) as host:
        text = outcome(host)
    assert len(accepted) == 1
    assert SENTENCE.decode().strip() in text and f"wait {refusals.WAIT_SECONDS} seconds" in text


def test_too_many_logins_at_once_are_tried_again(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSH's other sentence: it passes."""
    monkeypatch.setattr("random.uniform", lambda *_: 0)
    accepted: list[int] = []
    with refusing(b"Exceeded MaxStartups\r\n", accepted) as host:
        outcome(host)
    assert len(accepted) > 1


def test_an_sshd_without_a_common_algorithm_is_named_at_once(
    operator: Operator, cluster: Cluster
) -> None:
    operator.knows(*cluster.machines)
    machine = cluster.machines[0]
    config, log = machine.folder / "sshd_config", machine.folder / "sshd.log"
    before = config.read_text()
    cipher = "chacha20-poly1305@openssh.com"
    operator.configures("Ciphers aes128-ctr\n")  # paramiko has no other, and ssh uses no other

    def configure(text: str) -> None:
        count = log.read_text().count("Server listening")
        config.write_text(text)
        os.kill(machine.pid or 0, signal.SIGHUP)
        listens = lambda: log.read_text().count("Server listening") > count  # noqa: E731
        assert wait_until(listens, seconds=60, every=0.01)

    configure(f"Ciphers {cipher}\n{before}")
    try:
        text = outcome(cluster.host(0))
    finally:
        configure(before)
    assert f"no matching cipher found. Their offer: {cipher}" in text and "next: ssh " in text
    assert traffic.host_traffic("h1").connections == 2, "one of each transport"


def test_a_key_of_a_kind_for_the_agent_alone_names_ssh_add(
    operator: Operator, cluster: Cluster
) -> None:
    """As mldsa44-ed25519 of OpenSSH 10.6: paramiko 5.1 has no class for it."""
    operator.knows(*cluster.machines)
    key = operator.ssh / "id_new"
    key.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n")
    operator.configures(f"Host *\n  IdentityFile {key}\n  IdentitiesOnly yes\n")
    assert outcome(cluster.host(0)).endswith(f"next: ssh-add {key}")
