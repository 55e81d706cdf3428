"""`fab plan` and `fab bootstrap` for programs: stdout holds the plan alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hosts.operator import Cluster, Operator

from bootstrap.cli import tasks
from bootstrap.cli.running import RUNNING, Exit
from bootstrap.facts.host import HostFacts
from bootstrap.inventory.hosts import parse_hosts
from bootstrap.plan.cluster import Options, SurveyedCluster
from bootstrap.plan.hostfile import Peer
from bootstrap.plan.runtimes import choose_runtime
from bootstrap.workflows import plan

STEPS = ["uv", "runtime", "horovod", "key"]


@pytest.fixture
def hosts(
    operator: Operator, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The text of --hosts for two bare hosts. The installer cannot be fetched for them."""
    operator.knows(*cluster.machines)
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    first, second = (cluster.host(index) for index in range(2))
    return f"{first.user}@{first.address}:{first.port},{second.user}@{second.address}:{second.port}"


@pytest.mark.parametrize("task", [tasks.plan, tasks.bootstrap], ids=["plan", "bootstrap"])
def test_stdout_holds_the_plan_alone(
    hosts: str, task: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    if task is tasks.plan:
        task(hosts=hosts, json=True)
    else:
        with pytest.raises(Exit, match="uv for the hosts could not be fetched"):
            task(hosts=hosts, json=True)
    output = capsys.readouterr()
    document = json.loads(output.out)
    assert output.out.count("\n") == 1
    inventory = parse_hosts(hosts)
    names = list(inventory.names)
    assert list(document["hosts"]) == names
    assert [step["name"] for step in document["hosts"][names[0]]] == STEPS
    assert output.err.startswith(f"{inventory.name} (hosts): ")
    assert f"[{', '.join(names)}] uv: " in output.err


@pytest.fixture(scope="module")
def planned() -> dict[str, str]:
    """The text of `fab plan`, by --hosts: it is the same for each test of this file."""
    return {}


def text_of_plan(hosts: str, planned: dict[str, str], capsys: pytest.CaptureFixture[str]) -> str:
    """What `fab plan` prints for people: all of it on stdout."""
    if hosts not in planned:
        tasks.plan(hosts=hosts)
        output = capsys.readouterr()
        assert output.err == "" and output.out.endswith("nothing was changed\n")
        planned[hosts] = output.out
    return planned[hosts]


@pytest.mark.parametrize(
    ("task", "options"), [(tasks.bootstrap, {}), (tasks.train, {"preset": "smoke"})]
)
def test_with_dry_the_plan_is_printed_for_people_and_the_hosts_stay_bare(
    hosts: str,
    home: Path,
    planned: dict[str, str],
    task: Any,
    options: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    expected = text_of_plan(hosts, planned, capsys)
    monkeypatch.setattr(RUNNING, "dry", True)
    task(hosts=hosts, **options)
    assert capsys.readouterr().out == expected
    assert not list(home.glob(".railhead/clusters/*/runs"))


def test_a_program_gets_the_plan_before_the_hosts_are_changed(
    debian: HostFacts, tmp_path: Path
) -> None:
    """Not when `fab bootstrap` ends, although stdout is a pipe or a file."""
    path = tmp_path / "plan.json"
    environment = choose_runtime({"h1": debian}, None, None)
    peers = (Peer("h1", "10.0.0.1", 22, "ann", 1, "key"),)
    cluster = SurveyedCluster(parse_hosts("h1"), {"h1": debian}, environment, peers)
    with path.open("w") as out:
        plan.print_plan(cluster, Options(), out)
        assert list(json.loads(path.read_text())["hosts"]) == ["h1"]
