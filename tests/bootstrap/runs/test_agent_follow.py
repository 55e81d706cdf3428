"""The agent follows a run."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from standins.agent_process import Agent, build
from standins.runs.run_documents import record_run, run_document, run_json

from bootstrap.console.live import Board
from bootstrap.console.wait import wait_until
from bootstrap.host.base.programs import NAME, SUPERVISOR, TAKEOVER
from bootstrap.inventory.hosts import Inventory, parse_hosts
from bootstrap.runs import follow, takeover
from bootstrap.runs.run import Run, find_run
from bootstrap.ssh.connect import Sessions
from bootstrap.ssh.connection import ConnectionLost
from bootstrap.ssh.local_session import local_session
from railhead.documents.agent.commands import CommandResult
from railhead.documents.agent.commands import Run as RunCommand
from railhead.documents.agent.files import Read, Text
from railhead.documents.agent.runs import Follow, Followed, LogLine, MetricLine, RunEvent
from railhead.documents.codec import encode
from railhead.documents.runs.run import RunHost


def run_folder(home: Path, state: str, pid: int) -> Path:
    folder = home / "runs" / "r1"
    build(folder, {"logs/rank-0.log": "1%\r2%", "results/metrics.jsonl": '{"a": 1}\n{"b": '})
    (folder / "state.json").write_text(json.dumps({"state": state, "pid": pid, "heartbeat": 1}))
    return folder


def test_follow_passes_on_what_is_new_and_ends_with_the_run(agent: Agent, home: Path) -> None:
    folder = run_folder(home, "succeeded", 7)
    answer, events = agent.call("follow", folder="~/runs/r1")
    assert answer == {"lost": False}
    assert events[0] == {"metrics": '{"a": 1}\n', "offset": 9}
    assert events[1]["last"] == {"0": "2%"}
    with (folder / "results" / "metrics.jsonl").open("a") as metrics:
        metrics.write("2}\n")
    _, events = agent.call("follow", folder="~/runs/r1", offset=9)
    assert events[0] == {"metrics": '{"b": 2}\n', "offset": 18}
    for offset, lines in {18: [], 19: ['{"a": 1}\n', '{"b": 2}\n']}.items():  # 19: of a longer file
        _, events = agent.call("follow", folder="~/runs/r1", offset=offset)
        assert [event["metrics"] for event in events if "metrics" in event] == lines


def test_follow_sees_that_the_supervisor_was_killed(agent: Agent, home: Path) -> None:
    """Also when this agent started it, and so is the parent of a zombie."""
    folder = run_folder(home, "running", 7)
    (folder / NAME).write_text("import time; time.sleep(600)")
    argv = [sys.executable, f"~/runs/r1/{NAME}", SUPERVISOR]
    pid = agent.call("start", argv=argv, cwd="~", env={}, log="~/log")[0]["pid"]
    run_folder(home, "running", pid)
    killed = threading.Event()

    def kill() -> None:
        killed.set()
        os.kill(pid, 9)

    threading.Timer(1, kill).start()
    assert agent.call("follow", folder="~/runs/r1")[0]["lost"] and killed.is_set()
    process = Path(f"/proc/{pid}")  # gone when it is waited for: `kill -0` fails for everybody
    assert wait_until(lambda: not process.exists(), seconds=60, every=0.05)


def test_follow_is_not_fooled_by_another_process_of_that_number(agent: Agent, home: Path) -> None:
    run_folder(home, "running", os.getpid())
    assert agent.call("follow", folder="~/runs/r1")[0]["lost"]


@pytest.mark.parametrize("before", [(), ("dead",), ("living",), ("dead", "living")])
def test_a_follower_that_attaches_keeps_those_that_live(
    home: Path, before: tuple[str, ...]
) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    pids = {"dead": str(dead.pid), "living": str(os.getpid())}
    build(home, {".railhead/runs/r1/attached": "".join(f"{pids[one]}\n" for one in before)})
    with local_session() as session:
        session.start_agent("python3")
        session.call(follow.attach_mark(Run("r1", home)))
        *others, agent = (home / ".railhead/runs/r1/attached").read_text().split()
        assert b"'agent'" in Path(f"/proc/{agent}/cmdline").read_bytes()
    assert others == ([pids[one] for one in before] if "living" in before else [])


class Breaking:
    """A chief with a run of some lines, whose connection breaks after so many events."""

    def __init__(self, *breaks: int) -> None:
        self.breaks = list(breaks)
        self.requested: list[tuple[int, int]] = []

    def call_all(self, _: RunCommand, read: Read) -> list[Any]:
        assert read.path.endswith("/run.json")
        return [CommandResult(0, ()), Text(json.dumps(run_json()))]

    def call(self, request: Follow, on_event: Callable[[RunEvent], None]) -> Followed:
        begin, log_begin = request.offset, request.log_offset
        self.requested.append((begin, log_begin))
        events: list[RunEvent] = [
            MetricLine(json.dumps({"kind": "epoch", "epoch": n, "loss": 0.5}), n)
            for n in range(begin + 1, 5)
        ]
        events += [LogLine(f"line {n}", n) for n in range(log_begin + 1, 5)]
        broken = bool(self.breaks)
        for event in events[: self.breaks.pop(0) if broken else None]:
            on_event(event)
        if broken:
            raise ConnectionLost("broke")
        return Followed(lost=False)


def test_after_broken_connections_each_line_is_shown_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "RETRY_PAUSES", (0, 0, 0))
    chief: Any = Breaking(3, 2, 2)
    seen: list[Any] = []
    connection = follow.RunConnection(
        Run("r1", tmp_path), parse_hosts("h1"), chief, watch=lambda entry: seen.append(entry)
    )
    monkeypatch.setattr(follow.RunConnection, "reopen", lambda *_: None)
    with Board(out := io.StringIO(), ["h1"]) as board:
        follow.follow_to_end(connection, board)
    assert chief.requested == [(0, 0), (3, 0), (4, 1), (4, 3)]
    assert [record.epoch for record in seen] == [1, 2, 3, 4]
    lines = [line.partition("] ")[2] for line in out.getvalue().splitlines() if "] line" in line]
    assert lines == [f"line {n}" for n in range(1, 5)]


class Lost:
    """A run whose supervisor died. Its second host, `h2`, leads it at the third look there.
    `sessions`: those that are open."""

    def __init__(self) -> None:
        self.sessions: list[Any] = []
        self.looks = 0

    def open(self, inventory: Inventory) -> Sessions:
        """A session with the first of these hosts."""
        session: Any = LostSession(self, inventory)
        self.sessions.append(session)
        return Sessions(inventory, {session.host.name: session})


class LostSession:
    """A session with one of its hosts."""

    has_agent = True

    def __init__(self, lost: Lost, inventory: Inventory) -> None:
        self.lost, self.host = lost, inventory.chief

    def close(self) -> None:
        """End the session."""
        self.lost.sessions.remove(self)

    def facts(self) -> Any:
        return SimpleNamespace(python="python3")

    def start_agent(self, python: str) -> None:
        """Nothing."""

    def run(self, argv: list[str], cwd: str) -> Any:
        return SimpleNamespace(tail=["0", "0"])

    def call_all(self, _: RunCommand, read: Read) -> list[Any]:
        assert read.path.endswith("/run.json")
        return [CommandResult(0, ()), Text(json.dumps(encode(LED)))]

    def read(self, path: str) -> str | None:
        assert path.endswith(TAKEOVER)
        self.lost.looks += 1
        return "{}" if self.lost.looks == 3 else None

    def call(self, request: Follow, on_event: Any) -> Followed:
        return Followed(lost=self.host.name == "h1")


LED = run_document(
    hosts=tuple(RunHost(name, "10.0.0.1", None, 1) for name in ("h1", "h2")), size=2, takeover=True
)


def test_one_session_stays_open_while_a_run_is_followed_to_its_standby(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = Lost()
    for module in (follow, takeover):
        monkeypatch.setattr(module, "open_sessions", lost.open)
    monkeypatch.setattr(follow, "RETRY_PAUSES", (0,) * 5)
    record_run(tmp_path / "r1", LED)
    inventory = replace(parse_hosts("h1,h2"), name="c")
    run = find_run(inventory, "r1")
    connection = follow.RunConnection(run, inventory, lost.open(inventory).chief)
    with Board(out := io.StringIO(), ["h1", "h2"]) as board:
        follow.follow_to_end(connection, board)
    assert out.getvalue().count("h2 leads the run now") == 1 and lost.looks == 3
    assert [session.host.name for session in lost.sessions] == ["h2"]


def test_a_chief_that_falls_silent_while_it_is_followed_is_given_up() -> None:
    """The agent sends an event every ten seconds, also where nothing changes."""
    assert 20 <= Follow.bounds.silence <= 300
