"""Local hosts through the protocol of clouds, and waiting for a cloud, with its time faked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from bootstrap.clouds import base
from bootstrap.clouds.base import InstanceState, wait_for_state
from bootstrap.clouds.local import cluster as local_cluster
from bootstrap.clouds.local.instances import Local
from bootstrap.console.wait import Clock
from bootstrap.errors import UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory, parse_hosts


@pytest.fixture
def cluster(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inventory]:
    """One local host of its own, in a home of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    made = local_cluster.start("cloud-test", 1)
    yield made
    local_cluster.stop(made.name)


def test_a_local_host_stops_and_starts_at_the_same_address(cluster: Inventory) -> None:
    cloud = base.cloud_of(cluster)
    before = cloud.instance_states()["h1"]
    assert before.state == "running"
    cloud.stop()
    cloud.stop()
    assert cloud.instance_states()["h1"].state == "stopped"
    cloud.start()
    after = cloud.instance_states()["h1"]
    assert (after.state, after.address) == ("running", before.address)
    assert cloud.deadlines() == {}
    assert cloud.costs() == []


def test_a_local_host_is_gone_only_when_its_folder_is(cluster: Inventory) -> None:
    local_state.forget_cluster(cluster.name)
    assert Local(cluster).instance_states()["h1"].state == "unknown"
    local_state.save_cluster(cluster)
    local_cluster.remove(cluster.name, ["h1"])
    (local_state.cluster_folder(cluster.name) / "runs").mkdir(parents=True)  # those are kept
    assert Local(cluster).instance_states()["h1"].state == "gone"
    local_state.save_cluster(cluster)  # for the fixture, which stops it once more


def test_named_machines_have_no_cloud() -> None:
    with pytest.raises(UsageError, match=r"are ad hoc \(given by --hosts") as caught:
        base.cloud_of(parse_hosts("a,b"))
    assert caught.value.code == 2


@dataclass
class Slow:
    """A cloud whose one machine changes its state at given seconds; the time is its own."""

    changes: dict[float, str]
    time: float = 0.0
    requests: list[float] = field(default_factory=list)

    def instance_states(self) -> dict[str, InstanceState]:
        self.requests.append(self.time)
        state = [state for at, state in self.changes.items() if at <= self.time][-1]
        return {"h1": InstanceState(state, None, "Slow", "")}

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.time, self._sleep)

    def _sleep(self, seconds: float) -> None:
        assert seconds >= 1, "a cloud is not called all the time"
        self.time += seconds

    def settled(self, *wanted: str, **more: Any) -> str:
        output: Any = self
        return wait_for_state(output, wanted or ("stopped", "gone"), clock=self.clock, **more)[
            "h1"
        ].state


def test_a_cloud_that_takes_90_seconds_to_stop_is_waited_for() -> None:
    slow = Slow({0: "stopping", 90: "stopped"})
    lines: list[str] = []
    assert slow.settled(report=lines.append) == "stopped"
    assert 90 <= slow.time < 110
    assert lines == ["h1 stopping", "h1 stopped"]


def test_a_cloud_that_never_stops_is_given_up() -> None:
    slow = Slow({0: "stopping"})
    assert slow.settled(limit=300) == "stopping"
    assert 300 <= slow.time < 310


def test_a_machine_that_is_reported_to_be_stopped_and_runs_again_is_not_stopped() -> None:
    slow = Slow({0: "stopping", 20: "stopped", 24: "running"})
    assert slow.settled(limit=60) == "running"


def test_a_machine_that_finds_no_room_is_not_waited_for_to_the_end() -> None:
    slow = Slow({0: "stopped", 10: "starting", 30: "stopped"})
    assert slow.settled("running") == "stopped"
    assert slow.time < 40
