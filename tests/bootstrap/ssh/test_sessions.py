"""`Sessions` and `ConnectedCluster`: which hosts they name, in which order, and what they close."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from standins import ctrl_c
from standins.connected import connected
from standins.waiting import wait_until

from bootstrap.errors import HostsFailed, RailheadError
from bootstrap.facts.host import HostFacts
from bootstrap.inventory.hosts import Host, Inventory, parse_hosts
from bootstrap.plan.cluster import SurveyedCluster
from bootstrap.plan.runtimes import Environment, choose_runtime
from bootstrap.ssh import connect
from bootstrap.ssh.cluster import ConnectedCluster
from bootstrap.ssh.connect import Sessions
from bootstrap.ssh.session import ConnectionLost


class Session:
    """A session that records what is done with it."""

    def __init__(self, name: str) -> None:
        self.host = SimpleNamespace(name=name)
        self.python = ""
        self.closed = False

    def start_agent(self, python: str) -> None:
        if self.host.name == "broken":
            raise RailheadError("no agent")
        self.python = python

    def close(self) -> None:
        self.closed = True


def opened(*names: str) -> dict[str, Any]:
    """Sessions in another order than the inventory's."""
    return {name: Session(name) for name in reversed(names)}


@pytest.fixture
def inventory() -> Inventory:
    return parse_hosts("c,a,b")


def test_only_a_session_whose_shell_does_not_answer_is_closed(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = dict[str, Session]()

    class Greeting(Session):
        def greet(self) -> None:
            if self.host.name == "a":
                raise ConnectionLost("a")

    def login(host: Host, *_: object) -> Session:
        made[host.name] = Greeting(host.name)
        return made[host.name]

    monkeypatch.setattr(connect, "_open", login)
    sessions = connect.open_sessions(inventory)
    assert [*sessions] == ["c", "b"] and [*sessions.failed] == ["a"]
    assert {name for name, session in made.items() if session.closed} == {"a"}


def test_ctrl_c_closes_what_is_connected_and_what_connects_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    greeted, connecting, over = threading.Event(), threading.Event(), threading.Event()
    made = dict[str, Session]()

    class Silent(Session):
        def greet(self) -> None:
            greeted.set()
            over.wait(60)

    def login(host: Host, *_: object) -> Session:
        if host.name == "later":
            connecting.set()
            over.wait(60)
        made[host.name] = Silent(host.name)
        return made[host.name]

    def press() -> None:
        greeted.wait(60)
        connecting.wait(60)
        ctrl_c.press()

    monkeypatch.setattr(connect, "_open", login)
    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        connect.open_sessions(parse_hosts("first,later"))
    assert [(name, session.closed) for name, session in made.items()] == [("first", True)]
    over.set()
    wait_until(lambda: "later" in made and made["later"].closed)


def test_sessions_have_the_order_of_the_hosts(inventory: Inventory) -> None:
    sessions = Sessions(inventory, opened("c", "a", "b"))
    assert [*sessions] == ["c", "a", "b"] and sessions.chief.host.name == "c"
    assert sessions.reasons == {} and sessions.outcomes == {"c": "ok", "a": "ok", "b": "ok"}


def test_hosts_that_were_not_reached_are_named_with_their_reason(inventory: Inventory) -> None:
    failed = {"b": ConnectionRefusedError(), "c": RailheadError("why")}
    sessions = Sessions(inventory, opened("a"), failed)
    assert [*sessions] == ["a"] and [*sessions.failed] == ["c", "b"]
    assert sessions.outcomes == {"c": "why", "a": "ok", "b": "refused: no sshd answers on port 22"}


def test_the_end_closes_all_sessions_also_those_that_replaced_others(inventory: Inventory) -> None:
    again: Any = Session("a")
    with pytest.raises(KeyError), Sessions(inventory, opened("c", "a", "b")) as sessions:
        sessions["a"].close()  # as before a reboot
        sessions["a"] = again
        raise KeyError
    assert again.closed and all(session.closed for session in sessions.values())  # type: ignore[attr-defined]


@pytest.fixture
def cluster(inventory: Inventory, debian: HostFacts) -> ConnectedCluster:
    facts = {name: replace(debian, pythons={"3.11": f"/{name}/python"}) for name in inventory.names}
    environment: Environment = choose_runtime(facts, None, None)
    return connected(SurveyedCluster(inventory, facts, environment, ()), opened(*inventory.names))


def pythons(cluster: ConnectedCluster) -> dict[str, str]:
    """The Python of each agent; empty where none was started."""
    return {name: session.python for name, session in cluster.sessions.items()}  # type: ignore[attr-defined]


def test_agents_start_with_each_host_s_own_python(cluster: ConnectedCluster) -> None:
    cluster.start_agents(["a"])
    assert pythons(cluster) == {"c": "", "a": "/a/python", "b": ""}
    cluster.start_agents()
    assert pythons(cluster) == {name: f"/{name}/python" for name in "cab"}


def test_copies_share_the_sessions(cluster: ConnectedCluster) -> None:
    copy = replace(cluster, wheel=Path("w"))
    again: Any = Session("b")
    copy.sessions["b"] = again
    assert cluster.sessions["b"] is again and copy != cluster


def test_an_agent_that_does_not_start_is_reported_with_the_hosts_that_did(
    cluster: ConnectedCluster,
) -> None:
    broken: Any = Session("b")
    broken.start_agent = Session("broken").start_agent
    cluster.sessions["b"] = broken
    with pytest.raises(HostsFailed, match="starting the agent failed on 1 of 3") as error:
        cluster.start_agents()
    assert error.value.outcomes == {"c": "ok", "a": "ok", "b": "no agent"}
