"""`fab up --replace` while its run continues, has ended, or was started elsewhere."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from standins import registered_cloud
from standins.connected import connected
from standins.pulumi_command import PulumiCommand, exported, resource
from standins.runs.run_documents import record_run, run_document

from bootstrap.clouds.base import InstanceState
from bootstrap.errors import RailheadError, UsageError
from bootstrap.facts.host import HostFacts
from bootstrap.inventory import local_state
from bootstrap.inventory.document import to_document
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.lifecycle.power import ClusterStatus
from bootstrap.lifecycle.stop_policy import running_machines
from bootstrap.plan.cluster import SurveyedCluster
from bootstrap.plan.runtimes import choose_runtime
from bootstrap.runs import replacement, takeover
from bootstrap.runs.run import Run, find_run
from bootstrap.workflows import attach
from bootstrap.workflows.machines import replacement as workflow
from railhead.documents.runs.run import RunHost

HOSTS = tuple(Host(f"h{n}", f"10.0.0.{n}", id=f"i-{n}") for n in (1, 2, 3))
INVENTORY = Inventory("c", HOSTS, cloud="aws", region="us-east-1", stack="dev", cluster_id="0a1b")
RUN = Run("r1", Path(), ("h1", "h2", "h3"))


class Cloud:
    """The states of the three machines, which are certain; `calls`: all else that it did."""

    def __init__(self, *states: str) -> None:
        self.states, self.calls = states, list[str]()

    def instance_states(self) -> dict[str, InstanceState]:
        return {
            host.name: InstanceState(state, host.address, "EC2", "now", certain=True)
            for host, state in zip(HOSTS, self.states, strict=True)
        }

    def of(self, _: Inventory) -> Cloud:
        return self

    def start(self) -> None:
        raise AssertionError("a machine was started")

    def __getattr__(self, name: str) -> Any:
        def called(*_: object) -> dict[str, Any]:
            self.calls.append(name)
            return {}

        return called


class Chief:
    """A chief with the states of runs; it has the agent of the command."""

    def __init__(self, **states: str) -> None:
        self.states, self.written = states, list[str]()

    def read(self, path: str, **_: object) -> str | None:
        run_id, name = path.split("/")[-2:]
        if name != "state.json" or run_id not in self.states:
            return None
        return json.dumps({"state": self.states[run_id], "pid": 5, "heartbeat": 1.0})

    def is_running(self, *_: object) -> bool:
        return True

    def run(self, argv: list[str], **_: object) -> None:
        self.written.append(argv[-1])


@pytest.mark.parametrize("chief", ["stopped", "running"])
def test_no_machine_starts_again_after_the_run_has_ended(
    chief: str,
    home: Path,
    pulumi: PulumiCommand,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cloud = Cloud(chief, "running", "stopped")
    registered_cloud.register(monkeypatch, "aws", cloud)
    document = to_document(INVENTORY)
    component = resource("railhead:aws:Cluster", outputs={"document": document})
    pulumi.answers(stack_export=exported(component))
    with pytest.raises(RailheadError, match="r1") as caught, running_machines(INVENTORY):
        workflow._ready("dev", RUN, "h2")
    assert {*cloud.calls} == {"account"}
    assert "fab stop --stack dev" in str(caught.value.hint)
    assert "the machines keep running" in capsys.readouterr().out


def test_a_run_that_has_ended_gets_no_host(debian: HostFacts) -> None:
    facts = dict.fromkeys(INVENTORY.names, debian)
    chief = Chief(r1="succeeded")
    surveyed = SurveyedCluster(INVENTORY, facts, choose_runtime(facts, None, None), ())
    cluster = connected(surveyed, {"h1": chief, "h2": chief})
    request: Any = None
    with pytest.raises(RailheadError, match="run r1 has ended; the new machine h2 runs"):
        replacement.hand_over(cluster, request, RUN, "h2")


def test_the_newest_run_in_progress_that_has_the_host_is_the_one(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newer runs: on other hosts, with the host as chief, ended, fetched, without its chief."""
    for run_id, names in {
        "20261101-1": "h1 h2",
        "20261101-2": "h1 h2",
        "20261101-3": "h1 h2",
        "20261101-4": "h1 h2",
        "20261101-5": "h2 h3",
        "20261101-6": "h1 h3",
        "20261101-7": "h3 h2",
    }.items():
        hosts = tuple(RunHost(name, "10.0.0.1", None, 1) for name in names.split())
        record_run(tmp_path / run_id, run_document(run_id=run_id, hosts=hosts))
    (tmp_path / "20261101-4").mkdir()
    (tmp_path / "20261101-4/result.json").write_text("{}")
    chief = Chief(**{f"20261101-{n}": "running" for n in (1, 2, 4, 5, 6, 7)})
    chief.states["20261101-3"] = "failed"
    opened: list[str] = []

    @contextlib.contextmanager
    def open_chief(inventory: Inventory, run: Run) -> Iterator[Any]:
        opened.append(run.part_of(inventory).chief.name)
        yield SimpleNamespace(chief=chief)

    monkeypatch.setattr(attach, "connected", open_chief)
    status = ClusterStatus(INVENTORY, Cloud("running", "gone", "stopped").instance_states(), "")
    with contextlib.ExitStack() as connections:
        running = workflow._run_in_progress(status, "h2", connections)
        assert running and running[1] == find_run(INVENTORY, "20261101-2")
    assert opened == ["h1"]
    record = replace(local_state.recorded_run("20261101-2"), elsewhere=True)
    local_state.save_run(record)
    with (
        pytest.raises(UsageError, match="20261101-2") as caught,
        workflow._run_without(status, "h2"),
    ):
        pass
    assert "the computer that started" in str(caught.value.hint) and not chief.written
    chief.states.clear()
    with workflow._run_without(status, "h2") as needs:
        assert needs is None


@pytest.mark.parametrize(("name", "has_standby"), [("h2", False), ("h3", True)])
def test_a_run_has_no_standby_after_its_replacement(
    name: str, has_standby: bool, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = tuple(RunHost(host.name, host.address, None, 1) for host in HOSTS)
    record_run(tmp_path / "r1", run_document(hosts=hosts, takeover=True))
    run = Run("r1", tmp_path / "r1", INVENTORY.names)
    workflow._record_lost_standby(run, name)
    assert bool(takeover.standby_of(run)) == has_standby
    assert bool(capsys.readouterr().out) != has_standby
