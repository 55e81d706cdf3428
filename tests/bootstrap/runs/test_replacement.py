"""A host that was created again: what the run's documents say of it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from standins.connected import connected
from standins.runs.run_documents import run_document

from bootstrap.errors import RailheadError
from bootstrap.facts.host import HostFacts
from bootstrap.host.base.programs import REPLACING, WHOLE
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.plan.cluster import SurveyedCluster
from bootstrap.plan.hostfile import Link, Peer
from bootstrap.plan.runtimes import choose_runtime
from bootstrap.runs import launch, replacement, takeover
from bootstrap.runs.run import Run
from bootstrap.ssh.cluster import ConnectedCluster
from bootstrap.ssh.local_session import local_session
from railhead.documents.agent.commands import CommandResult
from railhead.documents.agent.files import TextFile, Write
from railhead.documents.codec import decode, encode
from railhead.documents.runs.run import Role, RunDocument, RunHost, Runtime

HOSTS = tuple(RunHost(name, f"10.0.0.{n}", "ens5", 2) for n, name in enumerate("abc", 1))
WORKERS = tuple(f"10.0.0.{1 + n // 2}:{n}" for n in range(6))
RUN = run_document(
    hosts=HOSTS,
    size=6,
    roles=tuple(Role("worker", index) for index in range(6)),
    tf_cluster={"worker": WORKERS},
)
PEER = Peer("b", "fd00::7", 22, "u", 2, "ssh-ed25519 AAAA")


def test_only_its_address_and_its_devices_change() -> None:
    run = replacement.with_host(RUN, PEER, Link("ens6", "fd00::7/128"), ("T4", "T4"))
    assert run.hosts == (HOSTS[0], RunHost("b", "fd00::7", "ens6", 2, ("T4", "T4")), HOSTS[2])
    assert run.tf_cluster == {"worker": (*WORKERS[:2], "[fd00::7]:2", "[fd00::7]:3", *WORKERS[4:])}
    assert replace(run, hosts=RUN.hosts, tf_cluster=RUN.tf_cluster) == RUN


def test_a_run_without_addresses_of_ranks_gets_none() -> None:
    run = replace(RUN, roles=None, tf_cluster=None)
    assert replacement.with_host(run, PEER, Link(None, "")).tf_cluster is None


@pytest.mark.parametrize("series", ["4.1", "5.0"])
@pytest.mark.parametrize(
    ("former", "networks"),
    [
        ("10.0.0.1/32,10.0.0.2/32", "10.0.0.1/32,10.0.0.9/32"),
        ("eth0", ""),
        ("", "eth0"),
        ("127.0.0.0/8", "10.0.0.0/8"),
    ],
)
def test_the_command_of_mpirun_gets_the_networks_of_now(
    series: str, former: str, networks: str
) -> None:
    before, now = (
        launch.mpirun_argv("r1", size=4, run_folder="/r", networks=text, series=series)
        for text in (former, networks)
    )
    assert replacement.with_networks(before, networks) == now != before


def test_a_command_of_mpirun_that_is_not_written_yet_stays_empty() -> None:
    assert replacement.with_networks([], "eth0") == []


def test_two_commands_that_replace_hosts_are_both_waited_for(home: Path) -> None:
    run = Run("r1", home)
    file = home / ".railhead/runs/r1" / REPLACING
    file.parent.mkdir(parents=True)
    ended = subprocess.Popen(["true"])
    ended.wait()
    file.write_text(f"{os.getpid()}\n{ended.pid}\n")
    with local_session() as chief:
        chief.start_agent(chief.facts().python or "")
        replacement.announce(chief, run)
    first, second = map(int, file.read_text().split())
    assert first == os.getpid() and second not in (first, ended.pid)


class Chief:
    """A chief whose supervisor writes another number of ranks when it reads whole.json."""

    def __init__(self) -> None:
        self.files = {"mpirun.json": json.dumps(["mpirun", "-np", "6"])}

    def read(self, path: str) -> str | None:
        return self.files.get(path.rpartition("/")[2])

    def write(self, file: TextFile) -> None:
        name = file.path.rpartition("/")[2]
        self.files[name] = file.text
        if name == WHOLE:
            self.files["mpirun.json"] = json.dumps(["mpirun", "-np", "4"])


def test_the_number_of_ranks_that_the_supervisor_writes_meanwhile_stays(debian: HostFacts) -> None:
    peers = tuple(
        replace(PEER, name=name, address=f"10.0.0.{n}") for n, name in enumerate("abc", 1)
    )
    inventory = Inventory("c", tuple(Host(name, name) for name in "abc"))
    facts = dict.fromkeys("abc", debian)
    environment = choose_runtime(facts, None, None)
    chief = Chief()
    cluster = connected(SurveyedCluster(inventory, facts, environment, peers), {"a": chief})
    replacement._tell_lead(cluster, RUN, Run("r1", Path()))
    assert json.loads(chief.files["mpirun.json"])[:3] == ["mpirun", "-np", "4"]
    assert {*chief.files} == {WHOLE, "mpirun.json", "known_hosts", "ssh_config"}


class Member:
    """A host of a run in progress, with its files; `logins`: what happens at the check of them."""

    def __init__(self, logins: Callable[[], None] = lambda: None, **documents: Any) -> None:
        self.logins = logins
        self.files = {name.replace("_", "."): json.dumps(text) for name, text in documents.items()}

    def read(self, path: str, **_: object) -> str | None:
        return self.files.get(path.rpartition("/")[2])

    def write(self, *files: TextFile) -> None:
        self.files |= {file.path.rpartition("/")[2]: file.text for file in files}

    def call_all(self, written: Write, *more: object) -> list[None]:
        self.write(*written.files)
        return [None, *(None for _ in more)]

    def call(self, request: object) -> CommandResult:
        self.logins()
        return CommandResult(0, ())

    def is_running(self, *_: object) -> bool:
        return True

    def send_tree(self, *_: object) -> None:
        pass


def members(debian: HostFacts, new: str) -> tuple[ConnectedCluster, dict[str, Member]]:
    """A run on three hosts, of which b stands by; the host `new` has nothing."""
    peers = tuple(Peer(name, f"10.0.1.{n}", 22, "u", 2, "key") for n, name in enumerate("abc", 1))
    facts = dict.fromkeys("abc", debian)
    environment = choose_runtime(facts, None, None)
    inventory = Inventory("c", tuple(Host(name, name) for name in "abc"))
    runtime = Runtime("tf", environment.digest)
    of_chief = replace(RUN, runtime=runtime, tf_cluster=None, roles=None, takeover=True)
    of_standby = replace(of_chief, hosts=takeover.rotated(HOSTS))
    state = {"state": "running", "pid": 7, "heartbeat": 1.0}
    hosts = {
        "a": Member(whole_json=encode(of_chief), state_json=state),
        "b": Member(whole_json=encode(of_standby)),
        "c": Member(),
    }
    hosts[new] = Member()
    return connected(SurveyedCluster(inventory, facts, environment, peers), hosts), hosts


def addresses(host: Member) -> list[tuple[str, str]] | None:
    """The hosts in the document of all hosts."""
    if (text := host.files.get(WHOLE)) is None:
        return None
    document = decode(RunDocument, json.loads(text))
    return [(one.name, one.peer_address) for one in document.hosts]


REQUEST: Any = SimpleNamespace(bundle=SimpleNamespace(files=()))
OF_B = Run("r1", Path("/results"), ("a", "b", "c"), standby="b")


@pytest.mark.parametrize("new", ["b", "c"])
def test_the_chief_and_its_standby_get_the_new_address_in_their_own_order(
    home: Path, debian: HostFacts, new: str
) -> None:
    """Where the standby itself was created again, there is none any more."""
    cluster, hosts = members(debian, new)
    replacement.hand_over(cluster, REQUEST, OF_B, new)
    before = {host.name: host.peer_address for host in HOSTS}
    now = before | {new: f"10.0.1.{'abc'.index(new) + 1}"}
    assert addresses(hosts["a"]) == [(name, now[name]) for name in "abc"]
    assert addresses(hosts["b"]) == (None if new == "b" else [(n, now[n]) for n in "bca"])
    assert "run.json" in hosts[new].files and "run.json" not in hosts["a"].files


def test_a_run_that_ends_while_the_host_gets_its_files_is_named(
    home: Path, debian: HostFacts
) -> None:
    cluster, hosts = members(debian, "c")
    ended = json.dumps({"state": "failed", "pid": 7, "heartbeat": 1.0})
    hosts["a"].logins = lambda: hosts["a"].files.update({"state.json": ended})
    with pytest.raises(RailheadError, match="run r1 has ended; the new machine c runs"):
        replacement.hand_over(cluster, REQUEST, OF_B, "c")
