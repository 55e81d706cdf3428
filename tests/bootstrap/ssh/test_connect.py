"""Connecting to real sshd: who gets in, who is refused, and the reason for each that fails."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import paramiko
import pytest
from hosts.operator import Cluster, Operator, line, make_key, named
from paramiko.ssh_exception import SSHException

from bootstrap.console.wait import wait_until
from bootstrap.errors import HostsFailed, HostsNotReady, RailheadError, UsageError
from bootstrap.host.run.cluster_key import listens
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.lifecycle import reach
from bootstrap.ssh import connect
from bootstrap.ssh.host_keys import ChangedHostKey, UnknownHostKey
from bootstrap.ssh.login import jump_hosts, route
from bootstrap.ssh.session import Session
from bootstrap.ssh.traffic import host_traffic


def outcome(*hosts: Host) -> dict[str, str]:
    """The outcome of each host when they cannot all be reached."""
    with pytest.raises(HostsNotReady) as caught, reach.sessions(named(*hosts)):
        pass
    return caught.value.outcomes


def enter(host: Host) -> str:
    """The type of the key of a host that lets us in."""
    with reach.sessions(named(host)) as opened:
        assert opened[host.name].sh("echo in").strip() == "in"
        return opened[host.name].host_key.get_name()


def fingerprint(public: Path) -> str:
    """As ssh-keygen prints it."""
    shown = subprocess.run(["ssh-keygen", "-lf", str(public)], text=True, capture_output=True)
    return shown.stdout.split()[1]


def test_64_hosts_at_once_and_none_is_lost(operator: Operator, cluster: Cluster) -> None:
    """They are 64 names of three hosts; an sshd lets eight log in at once."""
    operator.knows(*cluster.machines)
    machines = [cluster.machines[number % 3] for number in range(64)]
    operator.configures(
        "".join(
            f"Host alias{number}\n  HostName {machine.address}\n  Port {machine.port}\n"
            f"  User {cluster.user}\n"
            for number, machine in enumerate(machines)
        )
    )
    hosts = [Host(f"h{number}", f"alias{number}") for number in range(64)]
    with reach.sessions(named(*hosts)) as opened:
        output = connect.everywhere(opened, lambda s: s.sh("echo $HOME").strip(), what="asking")
    assert output == {f"h{n}": str(machine.home) for n, machine in enumerate(machines)}


def test_40_connections_to_one_sshd_and_none_is_lost(operator: Operator, cluster: Cluster) -> None:
    operator.knows(cluster.machines[0])

    def ask(_: int) -> str:
        with reach.sessions(named(cluster.host(0))) as opened:
            return opened["h1"].sh("echo in; sleep 0.5").strip()

    with ThreadPoolExecutor(40) as pool:
        assert list(pool.map(ask, range(40))) == ["in"] * 40


# Keys


def test_an_unknown_key_is_refused_with_its_fingerprint_and_the_way_on(
    operator: Operator, cluster: Cluster
) -> None:
    output = outcome(cluster.host(0))["h1"]
    assert fingerprint(cluster.machines[0].folder / "host_key.pub") in output
    assert f"next: fab trust --hosts {cluster.host(0)}" in output


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
@pytest.mark.parametrize("where", [".ssh/known_hosts", ".railhead/known_hosts"])
def test_a_changed_key_is_refused(
    operator: Operator, cluster: Cluster, tmp_path: Path, kind: str, where: str
) -> None:
    machine, known = cluster.machines[0], operator.home / where
    known.parent.mkdir(exist_ok=True)
    known.write_text(line(machine, make_key(tmp_path / "old", kind)))
    output = outcome(cluster.host(0))["h1"]
    assert "REFUSED, its host key changed" in output
    assert fingerprint(machine.folder / "host_key.pub") in output
    assert "fab trust" not in output
    _, _, hint = output.partition("know why: ")
    subprocess.run(hint, shell=True, check=True, capture_output=True)
    assert "unknown host key" in outcome(cluster.host(0))["h1"]


def test_a_pin_of_ours_outweighs_the_persons(
    operator: Operator, cluster: Cluster, tmp_path: Path
) -> None:
    machine = cluster.machines[0]
    operator.knows(machine)
    (operator.home / ".railhead").mkdir()
    pin = operator.home / ".railhead/known_hosts"
    pin.write_text(line(machine, make_key(tmp_path / "ours")))
    assert "REFUSED" in outcome(cluster.host(0))["h1"]


@pytest.mark.parametrize(
    "odd",
    ["@cert-authority *.example.com ssh-ed25519 AAAA\n", "garbage\n", "a b c\n", "x ssh-dss A=\n"],
)
def test_lines_that_cannot_be_compared_are_passed_over(
    operator: Operator, cluster: Cluster, odd: str
) -> None:
    operator.write_known([odd, line(cluster.machines[0])])
    assert enter(cluster.host(0)) == "ssh-ed25519"


@pytest.mark.parametrize("pinned", ["it", "another", "none"])
def test_a_revoked_key_is_refused(
    operator: Operator, cluster: Cluster, tmp_path: Path, pinned: str
) -> None:
    machine = cluster.machines[0]
    pins = {"it": [line(machine)], "another": [line(machine, make_key(tmp_path / "new"))]}
    known = operator.write_known([*pins.get(pinned, []), f"@revoked\t{line(machine)}"])
    output = outcome(cluster.host(0))["h1"]
    assert f"REFUSED, its host key is revoked in {known}: " in output
    assert fingerprint(machine.folder / "host_key.pub") in output and "next" not in output


@pytest.mark.parametrize("revoked", ["in the same file", "in a file that pins none"])
def test_a_key_beside_a_revoked_one_is_accepted(
    operator: Operator, cluster: Cluster, tmp_path: Path, revoked: str
) -> None:
    machine = cluster.machines[0]
    old = line(machine, make_key(tmp_path / "old"))
    known = operator.write_known([old, f"@revoked {old}", line(machine)])
    if revoked == "in a file that pins none":
        known.write_text(line(machine))
        (operator.home / ".railhead").mkdir()
        (operator.home / ".railhead/known_hosts").write_text(f"@revoked {old}")
    enter(cluster.host(0))


# Messages about hosts that cannot be reached


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One second instead of ten for those that do not answer."""
    monkeypatch.setattr(jump_hosts, "CONNECT_SECONDS", 1)
    monkeypatch.setattr(jump_hosts, "BANNER_SECONDS", 1)


@pytest.fixture
def mute() -> Iterator[Host]:
    """A port that takes connections and never speaks."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield Host("mute", "127.0.0.1", port=server.getsockname()[1])


@pytest.fixture
def silent() -> Iterator[Host]:
    """A port whose kernel drops calls, because the queue is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        address = server.getsockname()
        callers = [socket.socket() for _ in range(4)]
        for caller in callers:
            caller.setblocking(False)
            caller.connect_ex(address)
        yield Host("silent", str(address[0]), port=address[1])
        for caller in callers:
            caller.close()


def closed() -> Host:
    """A port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return Host("closed", "127.0.0.1", port=server.getsockname()[1])


def test_every_host_is_reported_in_one_report(
    operator: Operator, cluster: Cluster, quick: None, mute: Host, silent: Host
) -> None:
    operator.knows(*cluster.machines)
    shut = closed()
    ports = {host.name: host.port for host in (shut, silent, mute)}
    aliases = [Host(name, f"{name}-alias") for name in ports]  # their ports are in ssh_config
    operator.configures(
        "".join(
            f"Host {name}-alias\n  HostName 127.0.0.1\n  Port {ports[name]}\n" for name in ports
        )
    )
    nameless = Host("nameless", "no-such-host.invalid")
    stranger = replace(cluster.host(1), user="railhead-nobody")
    no_name = Host("no-name", "x" * 64)  # no part of a DNS name is as long
    output = outcome(cluster.host(0), nameless, no_name, *aliases, stranger)
    says = {
        "h1": "ok",
        "nameless": "the name 'no-such-host.invalid' does not resolve",
        "no-name": f"the name {'x' * 64!r} does not resolve",
        "closed": f"refused: no sshd answers on port {ports['closed']}",
        "silent": f"no answer within 10 s: does it run, is port {ports['silent']} open?",
        "mute": f"port {ports['mute']} is open, but no sshd answers there",
        "h2": "none of your keys is accepted",
    }
    assert {name: says[name] in text for name, text in output.items()} == dict.fromkeys(says, True)


@pytest.mark.parametrize("keys", ["none", "another"])
def test_a_host_that_wants_a_password_is_reported_at_once(
    operator: Operator, cluster: Cluster, tmp_path: Path, keys: str
) -> None:
    operator.knows(cluster.machines[0])
    (operator.ssh / "id_ed25519").unlink()
    if keys == "another":
        operator.has(make_key(tmp_path / "another"))
    with taking_passwords(cluster):
        before = host_traffic("h1").connections
        output = outcome(cluster.host(0))["h1"]
    assert output.startswith("none of your keys is accepted (passwords are not used)")
    assert f"next: ssh-copy-id -p {cluster.machines[0].port} " in output
    assert host_traffic("h1").connections == before + 1, "it was tried again"


class taking_passwords:
    """The first sshd asks for passwords meanwhile."""

    def __init__(self, cluster: Cluster) -> None:
        self.config = cluster.machines[0].folder / "sshd_config"
        self.pid = cluster.machines[0].pid or 0
        self.address = (cluster.machines[0].address, cluster.machines[0].port)
        self.before = self.config.read_text()

    def __enter__(self) -> None:
        self._configure(
            self.before.replace("PasswordAuthentication no", "PasswordAuthentication yes")
        )

    def __exit__(self, *failure: object) -> None:
        self._configure(self.before)

    def _configure(self, text: str) -> None:
        log = self.config.with_name("sshd.log")
        before = log.read_text().count("Server listening")
        self.config.write_text(text)
        os.kill(self.pid, signal.SIGHUP)
        listens = lambda: log.read_text().count("Server listening") > before  # noqa: E731
        assert wait_until(listens, seconds=60, every=0.01), log.read_text()


def test_a_private_key_that_cannot_be_read_is_reported_as_one(
    operator: Operator, cluster: Cluster
) -> None:
    """A folder in its place: root reads every file."""
    operator.knows(cluster.machines[0])
    key = operator.ssh / "keys"
    key.mkdir()
    operator.configures(f"Host *\n  IdentityFile {key}\n  IdentitiesOnly yes\n")
    reason = f"{key} on this computer cannot be read: Is a directory"
    assert outcome(cluster.host(0)) == {"h1": reason}


# The user's own ssh


@pytest.mark.parametrize(
    ("variable", "setting", "gets_in"),
    [
        ("the agent", "", True),
        ("the agent", "IdentityAgent SSH_AUTH_SOCK", True),
        ("the agent", "IdentityAgent none", False),
        ("the agent", "IdentityAgent ~/nobody", False),
        ("the agent", "IdentityAgent $UNSET_HERE", False),
        ("nobody", 'IdentityAgent "~/.ssh/my agent"', True),
        ("nobody", "IdentityAgent $OUR_AGENT", True),
        ("nobody", "IdentityAgent ${OUR_AGENT}", True),
        ("nobody", 'IdentityAgent "%d/.ssh/my agent"', True),
    ],
)
def test_keys_of_the_ssh_agent_count(
    operator: Operator,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    setting: str,
    gets_in: bool,
) -> None:
    operator.knows(cluster.machines[0])
    operator.configures(f"Host *\n  {setting}\n")
    (operator.ssh / "id_ed25519").unlink()
    path = operator.ssh / "my agent"
    monkeypatch.setenv("OUR_AGENT", str(path))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=-3)
    try:
        assert wait_until(lambda: listens(str(path)), seconds=30, every=0.01)
        subprocess.run(["ssh-add", "-q", str(cluster.key)], check=True)
        if variable == "nobody":
            monkeypatch.setenv("SSH_AUTH_SOCK", str(operator.ssh / "nobody"))
        if gets_in:
            enter(cluster.host(0))
        else:
            assert "none of your keys is accepted" in outcome(cluster.host(0))["h1"]
    finally:
        agent.terminate()
        agent.wait()


def aliases(cluster: Cluster, jump_user: str = "") -> str:
    """`jump`, and after it `inner`, as a person's ssh_config has them."""
    jump, inner = cluster.machines[:2]
    return f"""
Host jump
  HostName {jump.address}
  Port {jump.port}
  User {jump_user or cluster.user}
  IdentityFile {cluster.key}
Host inner
  HostName {inner.address}
  Port {inner.port}
  User {cluster.user}
  IdentityFile {cluster.key}
  ProxyJump jump
"""


@pytest.fixture
def traveller(operator: Operator, cluster: Cluster) -> Operator:
    """Somebody whose key stands in ssh_config alone, and who knows both hosts of the way."""
    (operator.ssh / "id_ed25519").unlink()
    operator.knows(*cluster.machines[:2])
    operator.configures(aliases(cluster))
    return operator


INNER = Host("inner", "inner")


def test_the_way_through_a_jump_host_is_closed_after_us(
    traveller: Operator, cluster: Cluster
) -> None:
    with reach.sessions(named(INNER)) as opened:
        connection: Any = opened["inner"].connection
        hops = [client.get_transport() for client in connection.clients]
        assert [hop is not None and hop.is_active() for hop in hops] == [True, True]
    assert [hop is not None and hop.is_active() for hop in hops] == [False, False]


def names(host: Host) -> list[str]:
    """The hops to a host, as they are named."""
    return [hop.config.name for hop in route.way(host, named(INNER))]


def test_jump_hosts_are_named_in_each_form_that_ssh_knows(operator: Operator) -> None:
    forms = "ann@first:2222,second,[2001:db8::7]:22,bob@corp@[2001:db8::8]"
    operator.configures(f"Host inner\n  ProxyJump {forms}\nHost *\n  User me\n  Port 7\n")
    hops = [hop.config for hop in route.way(INNER, named(INNER))]
    assert [(hop.user, hop.host, hop.port) for hop in hops] == [
        ("ann", "first", 2222), ("me", "second", 7), ("me", "2001:db8::7", 22),
        ("bob@corp", "2001:db8::8", 7), ("me", "inner", 7),
    ]  # fmt: skip


@pytest.mark.parametrize("address", ["inner", "door"])
def test_a_jump_host_for_all_does_not_lead_to_itself(operator: Operator, address: str) -> None:
    operator.configures("Host door\n  HostName 192.0.2.9\nHost *\n  ProxyJump door\n")
    assert names(Host("x", address)) == (["door", "inner"] if address == "inner" else ["door"])


def test_jump_hosts_that_name_each_other_are_each_passed_once(operator: Operator) -> None:
    jumps = {"inner": "first", "first": "second", "second": "first"}
    operator.configures("".join(f"Host {a}\n  ProxyJump {b}\n" for a, b in jumps.items()))
    assert names(INNER) == ["second", "first", "inner"]


def test_a_swapped_key_of_the_jump_host_is_refused(
    traveller: Operator, cluster: Cluster, tmp_path: Path
) -> None:
    jump, inner = cluster.machines[:2]
    traveller.write_known([line(jump, make_key(tmp_path / "old")), line(inner)])
    output = outcome(INNER)["inner"]
    assert f"REFUSED, its host key changed: [{jump.address}]:{jump.port}" in output


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("jump refuses us", "its jump host jump: none of your keys is accepted"),
        ("jump is closed", "its jump host jump: refused: no sshd answers on port 9"),
        ("inner is closed", "its jump host cannot connect to inner port 9:"),
    ],
)
def test_what_fails_on_the_way_is_named(
    traveller: Operator, cluster: Cluster, wrong: str, says: str
) -> None:
    text = aliases(cluster, "railhead-nobody" if wrong == "jump refuses us" else "")
    ports = {
        "jump is closed": cluster.machines[0].port,
        "inner is closed": cluster.machines[1].port,
    }
    if wrong in ports:
        text = text.replace(f"Port {ports[wrong]}\n", "Port 9\n")
        names = [line(machine).replace(f":{ports[wrong]} ", ":9 ") for machine in cluster.machines]
        traveller.write_known([*names, *(line(m) for m in cluster.machines)])
    traveller.configures(text)
    assert says in outcome(INNER)["inner"]


# All hosts at once


@pytest.fixture
def opened(operator: Operator, cluster: Cluster) -> Iterator[dict[str, Session]]:
    """Sessions with all three."""
    operator.knows(*cluster.machines)
    with reach.sessions(named(*map(cluster.host, range(3)))) as opened:
        yield opened


def test_everywhere_waits_for_all_and_reports_all(opened: dict[str, Session]) -> None:
    """Exit 2 says that nothing was started: it may have been, on the host that failed."""
    errors = {"h1": UsageError("a rule"), "h3": RailheadError("a failure")}
    ended = []

    def work(session: Session) -> None:
        if error := errors.get(session.host.name):
            raise error
        time.sleep(0.3)
        ended.append(session.host.name)

    with pytest.raises(HostsFailed, match="luck failed on 2 of 3 hosts") as caught:
        connect.everywhere(opened, work, what="luck")
    assert ended == ["h2"]
    assert caught.value.code == 1 and not isinstance(caught.value, UsageError)
    assert caught.value.outcomes == {"h1": "a rule", "h2": "ok", "h3": "a failure"}


def test_what_only_breaks_rules_has_started_nothing(opened: dict[str, Session]) -> None:
    def refuse(session: Session) -> None:
        raise UsageError("no")

    with pytest.raises(HostsNotReady):
        connect.everywhere(opened, refuse, what="asking")


@pytest.mark.parametrize("kind", [ChangedHostKey, UnknownHostKey])
@pytest.mark.parametrize("behind", [False, True])
def test_a_login_with_another_host_key_is_not_tried_again(kind: Any, behind: bool) -> None:
    key = paramiko.RSAKey.generate(1024)
    changed = kind is ChangedHostKey
    error = kind("h1", key, Path("known_hosts")) if changed else kind("h1", key)
    if behind:
        hop: Any = SimpleNamespace(name="jump", host="jump", user=None, port=22)
        error = jump_hosts.JumpHostFailed(hop, error)
    assert not jump_hosts._overloaded(error, 0.1)
    assert jump_hosts._overloaded(SSHException("closed"), 0.1), "an sshd that is too busy is"


def test_all_work_at_the_same_time_and_answers_keep_the_order(opened: dict[str, Session]) -> None:
    together = threading.Barrier(3, timeout=60)

    def work(session: Session) -> int:
        return together.wait() + len(session.sh("echo $HOME"))

    assert list(connect.everywhere(opened, work, what="meeting")) == ["h1", "h2", "h3"]


def test_facts_of_all_hosts_are_read(opened: dict[str, Session], cluster: Cluster) -> None:
    homes = [facts.home for facts in connect.all_facts(opened).values()]
    assert homes == [str(machine.home) for machine in cluster.machines]


def test_a_cluster_of_ours_uses_its_own_key_alone(
    operator: Operator, cluster: Cluster, tmp_path: Path
) -> None:
    operator.knows(cluster.machines[0])
    another = make_key(tmp_path / "another")
    ours = Inventory("hosts-test", (cluster.host(0),), key_file=str(another))
    sessions = connect.open_sessions(ours)
    assert not sessions
    assert "none of your keys" in sessions.outcomes["h1"]
