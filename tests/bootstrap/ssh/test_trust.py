"""`fab trust`: what it shows, what it asks once, and that it never takes a changed key."""

from __future__ import annotations

from pathlib import Path

import pytest
from hosts.operator import Cluster, Operator, line, make_key, named

from bootstrap.errors import HostsNotReady, UsageError
from bootstrap.inventory.hosts import Host
from bootstrap.lifecycle import reach
from bootstrap.ssh import trust


class Confirmation:
    """Agrees to all, or to none, and remembers the questions."""

    def __init__(self, answer: bool = True) -> None:
        self.questions: list[str] = []
        self.answer = answer

    def __call__(self, output: str) -> bool:
        self.questions.append(output)
        return self.answer


def pins(operator: Operator) -> str:
    """Our own known_hosts; empty when there is none."""
    path = operator.home / ".railhead/known_hosts"
    return path.read_text() if path.exists() else ""


def test_agreed_keys_are_pinned_and_then_it_connects(operator: Operator, cluster: Cluster) -> None:
    both, request = named(cluster.host(0), cluster.host(1)), Confirmation()
    output = trust.pin_keys(trust.unknown_keys(both), request)
    assert output == [f"pinned {reported}" for reported in request.questions]
    assert pins(operator) == line(cluster.machines[0]) + line(cluster.machines[1])
    assert (operator.home / ".railhead/known_hosts").stat().st_mode & 0o777 == 0o600
    with reach.sessions(both) as opened:
        assert list(opened) == ["h1", "h2"]
    assert trust.unknown_keys(both) == {}


def test_pins_stay_each_a_line_of_its_own(operator: Operator, cluster: Cluster) -> None:
    path = operator.home / ".railhead/known_hosts"
    path.parent.mkdir()
    path.write_bytes(b"\xff without an end of line")
    for index in range(2):
        trust.pin_keys(trust.unknown_keys(named(cluster.host(index))), Confirmation())
    first, *rest = path.read_bytes().splitlines(keepends=True)
    assert first.startswith(b"\xff")
    assert b"".join(rest).decode() == "".join(map(line, cluster.machines[:2]))


def test_a_file_of_pins_that_cannot_be_read_is_a_usage_error(
    operator: Operator, cluster: Cluster
) -> None:
    found = trust.unknown_keys(named(cluster.host(0)))
    (operator.home / ".railhead/known_hosts").mkdir(parents=True)
    with pytest.raises(UsageError, match="known_hosts cannot be read"):
        trust.pin_keys(found, Confirmation())


def test_without_agreement_nothing_is_pinned(operator: Operator, cluster: Cluster) -> None:
    request = Confirmation(answer=False)
    with pytest.raises(UsageError, match="is not trusted; nothing was pinned"):
        trust.pin_keys(trust.unknown_keys(named(cluster.host(0))), request)
    assert len(request.questions) == 1
    assert pins(operator) == ""


def test_known_hosts_are_not_queried_about(operator: Operator, cluster: Cluster) -> None:
    operator.knows(cluster.machines[0])
    assert list(trust.unknown_keys(named(cluster.host(0), cluster.host(1)))) == ["h2"]


def test_a_changed_key_is_refused_by_trust_too(
    operator: Operator, cluster: Cluster, tmp_path: Path
) -> None:
    operator.write_known([line(cluster.machines[0], make_key(tmp_path / "old"))])
    with pytest.raises(HostsNotReady, match="REFUSED, its host key changed"):
        trust.unknown_keys(named(cluster.host(0), cluster.host(1)))
    assert pins(operator) == ""


def test_a_key_that_changes_after_it_was_pinned_is_refused(
    operator: Operator, cluster: Cluster, tmp_path: Path
) -> None:
    alone = named(cluster.host(0))
    trust.pin_keys(trust.unknown_keys(alone), Confirmation())
    path = operator.home / ".railhead/known_hosts"
    path.write_text(line(cluster.machines[0], make_key(tmp_path / "before")))
    with pytest.raises(HostsNotReady, match="REFUSED"):
        trust.unknown_keys(alone)


def test_a_host_that_does_not_answer_cannot_be_trusted(
    operator: Operator, cluster: Cluster
) -> None:
    dead = Host("dead", cluster.machines[0].address, port=9)
    with pytest.raises(HostsNotReady, match="refused: no sshd answers on port 9"):
        trust.unknown_keys(named(cluster.host(0), dead))


def test_a_jump_host_of_several_is_queried_about_once_and_first(
    operator: Operator, cluster: Cluster
) -> None:
    jump, *inner = cluster.machines
    text = f"Host *\n  IdentityFile {cluster.key}\n  User {cluster.user}\n"
    text += f"Host jump\n  HostName {jump.address}\n  Port {jump.port}\n"
    for machine in inner:
        text += f"Host {machine.name}\n  HostName {machine.address}\n  Port {machine.port}\n"
        text += "  ProxyJump jump\n"
    operator.configures(text)
    behind = named(*(Host(machine.name, machine.name) for machine in inner))
    first, second = Confirmation(), Confirmation()
    trust.pin_keys(trust.unknown_keys(behind), first)
    assert pins(operator) == line(jump)
    trust.pin_keys(trust.unknown_keys(behind), second)
    assert (len(first.questions), len(second.questions)) == (1, 2)
    with reach.sessions(behind) as opened:
        assert list(opened) == ["h2", "h3"]
