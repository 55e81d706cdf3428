"""`fab plan` and `fab bootstrap` for programs: stdout holds the plan alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from invoke import Context
from standins.connected import connected

from bootstrap.cli import tasks
from bootstrap.cli.targets import Target
from bootstrap.console.live import Board
from bootstrap.console.output import print_lines
from bootstrap.facts.host import HostFacts
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.plan.cluster import Cluster, Options
from bootstrap.plan.hostfile import Peer
from bootstrap.plan.runtimes import RUNTIMES, Environment
from bootstrap.ssh.cluster import ConnectedCluster
from bootstrap.workflows import bootstrap, plan

INVENTORY = Inventory("c", (Host("h1", "10.0.0.1"), Host("h2", "10.0.0.2")))


@pytest.fixture
def surveyed_with(debian: HostFacts, monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """Two hosts whose facts are known; the options that they were surveyed with."""
    options_seen: list[Options] = []
    peers = tuple(Peer(h.name, h.address, 22, "u", 1, "k") for h in INVENTORY.hosts)
    facts = {h.name: debian for h in INVENTORY.hosts}
    environment = Environment(RUNTIMES["tf2.18-cpu"], "3.11", "a reason")
    cluster = Cluster(INVENTORY, facts, environment, peers, Path("horovod.whl"))

    @contextmanager
    def surveyed(_: Inventory, options: Options) -> Iterator[ConnectedCluster]:
        options_seen.append(options)
        yield connected(cluster, {})

    def apply(_: ConnectedCluster, plan: Any, board: Board) -> None:
        board.line("h1", "at work")

    def running(_: Target) -> Inventory:
        print_lines("c (hosts): h1, h2")
        return INVENTORY

    monkeypatch.setattr(plan, "surveyed", surveyed)
    monkeypatch.setattr(bootstrap, "surveyed", surveyed)
    monkeypatch.setattr(Target, "running", running)
    monkeypatch.setattr("bootstrap.provision.apply.apply", apply)
    return options_seen


@pytest.mark.parametrize("task", [tasks.plan, tasks.bootstrap], ids=["plan", "bootstrap"])
def test_stdout_holds_the_plan_alone(
    surveyed_with: list[Options], task: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    task.body(Context(), hosts="h1,h2", json=True, allow_mixed=True)
    output = capsys.readouterr()
    document = json.loads(output.out)
    assert output.out.count("\n") == 1
    assert list(document["hosts"]) == ["h1", "h2"]
    assert [step["name"] for step in document["hosts"]["h1"]] == ["uv", "runtime", "horovod", "key"]
    assert output.err.startswith("c (hosts): h1, h2\n") and "[h1] uv: " in output.err
    assert surveyed_with[0].allow_mixed


def test_people_read_it_on_stdout(
    surveyed_with: list[Options], capsys: pytest.CaptureFixture[str]
) -> None:
    tasks.plan.body(Context(), hosts="h1,h2")
    output = capsys.readouterr()
    assert output.err == "" and output.out.endswith("nothing was changed\n")
    assert not surveyed_with[0].allow_mixed
