"""Root's part of a plan: when it is done, and what is known after it. The work itself is done on
whole hosts, in tests/e2e/provision/test_system_*.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from standins.connected import connected
from standins.gpu_hosts import with_cards

from bootstrap.console.live import Board
from bootstrap.errors import HostsFailed, RailheadError
from bootstrap.facts.egress import Egress, EgressCheck
from bootstrap.facts.host import HostFacts
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.plan import runtimes
from bootstrap.plan.cluster import SurveyedCluster
from bootstrap.plan.drivers import choose
from bootstrap.plan.hostfile import Peer
from bootstrap.plan.steps import Plan
from bootstrap.plan.system_changes import Changes, changes
from bootstrap.provision import apply
from bootstrap.provision.apt_proxy import AptProxy
from bootstrap.provision.survey import with_new_facts
from bootstrap.provision.system import UNDO, change_system, undo_system_changes
from bootstrap.ssh.as_root import as_root
from bootstrap.ssh.cluster import ConnectedCluster
from bootstrap.ssh.connect import Sessions


def cluster(facts: HostFacts) -> ConnectedCluster:
    environment = runtimes.Environment(runtimes.RUNTIMES["tf2.18-cpu"], "3.11", "a reason")
    peers = (Peer("h1", "10.0.0.1", 22, "u", 1, "k"),)
    inventory = Inventory("c", (Host("h1", "h1"),))
    known = SurveyedCluster(inventory, {"h1": facts}, environment, peers, Path("a.whl"))
    return connected(known, {"h1": None})


@pytest.fixture
def board() -> Board:
    return Board(StringIO(), ["h1"])


@pytest.fixture
def lacking(debian: HostFacts) -> ConnectedCluster:
    """A host that lacks Open MPI."""
    tools = {name: path for name, path in debian.tools.items() if name != "mpirun"}
    return cluster(replace(debian, tools=tools))


def test_without_roots_work_nothing_is_queried_of_any_host(debian: HostFacts, board: Board) -> None:
    whole = cluster(debian)
    assert apply.apply_system_changes(whole, Plan(("h1",)), board) is whole


def test_what_is_known_afterwards_is_what_was_read_afterwards(
    lacking: ConnectedCluster, debian: HostFacts
) -> None:
    assert changes(lacking, "h1").packages == ("openmpi-bin",)
    after = apply.check_changed(lacking, ["h1"], {"h1": debian})
    assert after.facts == {"h1": debian}


def test_downloads_reach_hosts_as_the_plan_reported(
    lacking: ConnectedCluster, debian: HostFacts
) -> None:
    """A host that names other mirrors after the system changes is not let to them."""
    other = replace(
        debian, egress=Egress(EgressCheck("m", False), EgressCheck("m", False), ("http://x",))
    )
    after = apply.check_changed(lacking, ["h1"], {"h1": other})
    assert after.facts["h1"].egress == lacking.facts["h1"].egress


def test_changes_without_an_effect_are_an_error(lacking: ConnectedCluster) -> None:
    with pytest.raises(HostsFailed, match="still missing: openmpi-bin"):
        apply.check_changed(lacking, ["h1"], lacking.facts)


def test_a_driver_that_does_not_work_after_the_reboot_is_an_error(debian: HostFacts) -> None:
    bare = with_cards(debian, "turing", 1)
    row = choose(bare)
    assert row
    there = {**bare.system.packages, **dict.fromkeys(row.packages, "580.1")}
    installed = replace(bare, system=replace(bare.system, packages=there))
    with pytest.raises(HostsFailed, match="although the driver is installed"):
        apply.check_changed(cluster(bare), ["h1"], {"h1": installed})


def test_slots_follow_the_gpus_that_are_seen_now(debian: HostFacts) -> None:
    cards = with_cards(debian, "turing", 4)
    whole = with_new_facts(cluster(debian), {"h1": replace(cards, gpus=("Tesla T4",) * 4)})
    assert whole.peers[0].slots == 4
    old = with_new_facts(cluster(debian), {"h1": with_cards(debian, "pascal", 2)})
    assert old.peers[0].slots == 1


class Working:
    """A session with a host on which one step fails; `steps` are those that were begun there."""

    connection = SimpleNamespace(is_connected=True)

    def __init__(self, name: str, facts: HostFacts, failing: str = "") -> None:
        self.host, self._facts, self.failing = Host(name, name), facts, failing
        self.steps: list[str] = []

    def _do(self, step: str) -> None:
        self.steps.append(step)
        if step == self.failing:
            raise RailheadError(f"{step} failed")

    def sh(self, _script: str, *, report: Any, silence: float) -> None:
        self._do("script")
        report("@done")

    def facts(self) -> HostFacts:
        self._do("facts")
        return self._facts


def test_a_host_that_failed_stays_failed_when_another_fails_later(debian: HostFacts) -> None:
    hosts = {
        name: Working(name, debian, failing)
        for name, failing in (("h1", "script"), ("h2", ""), ("h3", "facts"))
    }
    opened: Any = hosts
    sessions = Sessions(Inventory("c", tuple(s.host for s in hosts.values())), opened)
    wanted = dict.fromkeys(hosts, Changes(packages=("openmpi-bin",)))
    with pytest.raises(HostsFailed, match="on 2 of 3 hosts") as failed:
        change_system(sessions, dict.fromkeys(hosts, debian), wanted, Board(StringIO(), [*hosts]))
    assert failed.value.outcomes == {"h1": "script failed", "h2": "ok", "h3": "facts failed"}
    assert [s.steps for s in hosts.values()] == [["script"], *[["script", "facts"]] * 2]


def test_each_host_without_access_reaches_the_mirrors_of_its_plan_alone(
    debian: HostFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three hosts that name a mirror one has access, and one gets a driver of NVIDIA's
    repository."""
    served: dict[str, Sequence[str]] = {}

    @contextmanager
    def on(_: AptProxy, session: Any, mirrors: Sequence[str]) -> Iterator[str]:
        served[session.host.name] = mirrors
        yield ""

    monkeypatch.setattr(AptProxy, "on", on)
    access = {"open": True, "shut": False, "gpu": False}
    facts = {
        name: replace(debian, egress=Egress(EgressCheck("m", here), EgressCheck("m", here), ("m",)))
        for name, here in access.items()
    }
    driver = choose(with_cards(debian, "turing", 1))
    assert driver and driver.repository
    wanted = dict.fromkeys(access, Changes(packages=("openmpi-bin",)))
    wanted["gpu"] = Changes(driver=driver)
    opened: Any = {name: Working(name, debian) for name in access}
    sessions = Sessions(Inventory("c", tuple(one.host for one in opened.values())), opened)
    change_system(sessions, facts, wanted, Board(StringIO(), [*access]))
    nvidia = "https://developer.download.nvidia.com"
    assert served == {"open": (), "shut": ("m",), "gpu": ("m", nvidia)}


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        (["nvidia-580\n52railhead\n", "", ""], (["52railhead", "nvidia-580"], [])),
        (["52railhead\n", "", "52railhead\n"], (["52railhead"], ["52railhead"])),
        ([""], ([], [])),
    ],
    ids=["undone", "without root", "nothing"],
)
def test_system_changes_are_undone_as_root_where_there_are_some(
    answers: list[str], outcome: tuple[list[str], list[str]]
) -> None:
    scripts: list[str] = []
    replies = iter(answers)

    def sh(script: str) -> str:
        scripts.append(script)
        return next(replies)

    session: Any = SimpleNamespace(sh=sh)
    assert undo_system_changes(session) == outcome
    assert len(scripts) == len(answers)
    assert scripts[1:2] == [as_root(UNDO)][: len(scripts) - 1]
