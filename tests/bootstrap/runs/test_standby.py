"""The standby of a run ends with a start that fails, and before the next run starts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bootstrap.inventory.hosts import Inventory
from bootstrap.remote.run import end_processes
from bootstrap.runs import start
from bootstrap.runs.run import Run
from bootstrap.ssh import connect
from bootstrap.ssh.connect import Sessions
from bootstrap.ssh.local_session import local_session
from bootstrap.ssh.session import ConnectionLost
from railhead.documents.swept import OF_STANDBYS

STANDBY = "#!/bin/sh\nexec sleep 60\n"  # in place of the Python that runs it


@pytest.fixture
def second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The cluster as its standby has it: this computer with an own home, and its agent."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(end_processes, "HOME", str(tmp_path))
    (tmp_path / "client/bin").mkdir(parents=True)
    (tmp_path / "client/bin/python").write_text(STANDBY)
    (tmp_path / "client/bin/python").chmod(0o755)
    (tmp_path / ".railhead/runs/r1/logs").mkdir(parents=True)
    with local_session() as session:
        sessions = Sessions(Inventory("c", (session.host,)), {"here": session})
        session.start_agent(sys.executable)
        monkeypatch.setattr(connect, "open_sessions", lambda _: sessions)
        monkeypatch.setattr(start, "start_agent", lambda *_: "")
        yield SimpleNamespace(
            inventory=sessions.inventory,
            sessions=sessions,
            chief="here",
            facts={"here": SimpleNamespace(standbys=frozenset({"r1"}))},
            bucket_client=SimpleNamespace(folder=tmp_path / "client"),
        )
    end_processes.end_run("r1", OF_STANDBYS)


def standbys() -> int:
    """How many standbys of the run there are."""
    return len(end_processes.processes("r1", OF_STANDBYS))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ConnectionLost("h1")])
def test_the_standby_ends_if_the_supervisor_is_not_started(
    error: BaseException, second: Any, tmp_path: Path
) -> None:
    run = Run("r1", tmp_path / "results")
    with (
        pytest.raises((KeyboardInterrupt, ConnectionLost)),
        start._standby_started(second, run),
    ):
        assert standbys() == 1
        raise error
    assert standbys() == 0


def test_a_new_run_ends_the_standby_of_an_earlier_one(second: Any, tmp_path: Path) -> None:
    start._start_standby(second, Run("r1", tmp_path / "results"))
    assert standbys() == 1
    start._end_earlier_standbys(second)
    assert standbys() == 0
