"""A host that was created again: what the run's documents say of it."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from standins.connected import connected
from standins.runs.run_documents import run_document

from bootstrap.facts.host import HostFacts
from bootstrap.host.base.programs import REPLACING, WHOLE
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.plan.cluster import SurveyedCluster
from bootstrap.plan.hostfile import Link, Peer
from bootstrap.plan.runtimes import choose_runtime
from bootstrap.runs import launch, replacement
from bootstrap.runs.run import Run
from bootstrap.ssh.local_session import local_session
from railhead.documents.agent.files import TextFile
from railhead.documents.runs.run import Role, RunHost

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
