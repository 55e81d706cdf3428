"""`follow` waits for a supervisor that has written nothing yet, and not for ever."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from bootstrap.host.agent import channel, runs
from bootstrap.host.base import programs
from railhead.documents.agent.runs import Follow, Followed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(channel, "OUT", io.BytesIO())
    run = tmp_path / "20261122-101500-00ff"
    run.mkdir()
    return run


def test_a_run_without_a_supervisor_is_lost_after_a_bounded_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "STARTING", 0.3)
    assert runs.follow(Follow(str(folder))).lost


class Messages(io.BytesIO):
    """The channel: each message changes a log, so that the next look at the run sends another;
    after three of them the supervisor has written its state."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.count = folder, 0
        (folder / "logs").mkdir()

    def write(self, data: Any) -> int:
        self.count += 1
        (self.folder / "logs/rank-0.log").write_text(str(self.count))
        if self.count == 3:
            (self.folder / "state.json").write_text(
                '{"state": "succeeded", "pid": 7, "heartbeat": 1}'
            )
        return super().write(data)


def test_a_supervisor_that_is_slow_to_start_is_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = Messages(folder)
    monkeypatch.setattr(channel, "OUT", messages)
    assert not runs.follow(Follow(str(folder))).lost
    assert messages.count >= 3


def test_a_run_in_which_nothing_changes_is_reported_again_and_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a follower can tell a quiet run from a host that does not answer."""

    class Ending(Messages):
        def write(self, data: Any) -> int:
            self.count += 1
            if self.count == 3:
                (folder / "state.json").write_text(
                    '{"state": "succeeded", "pid": 7, "heartbeat": 1}'
                )
            return io.BytesIO.write(self, data)

    messages = Ending(folder)
    monkeypatch.setattr(channel, "OUT", messages)
    monkeypatch.setattr(runs, "SIGN_OF_LIFE", 0.0)
    assert not runs.follow(Follow(str(folder))).lost
    assert messages.count >= 3


@pytest.mark.parametrize("text", ["", "{", "[]", '{"state": 5, "pid": "x"}'])
def test_a_damaged_state_without_a_supervisor_ends(folder: Path, text: str) -> None:
    (folder / "state.json").write_text(text)
    outcomes: list[Followed] = []
    request = Follow(str(folder))
    thread = threading.Thread(target=lambda: outcomes.append(runs.follow(request)), daemon=True)
    thread.start()
    thread.join(10)
    assert outcomes


@pytest.mark.parametrize(("sign", "is_lost"), [(signal.SIGSTOP, True), (signal.SIGCONT, False)])
def test_a_supervisor_that_is_stopped_for_long_is_lost(
    folder: Path, monkeypatch: pytest.MonkeyPatch, sign: signal.Signals, is_lost: bool
) -> None:
    """It is there, and has the run's folder in its command line; so has one that works."""
    monkeypatch.setattr(runs, "STOPPED", 0.5)
    command = ["sleep", "600"]
    with subprocess.Popen(command) as supervisor:
        monkeypatch.setattr(programs, "process_folder", lambda pid, program: str(folder))
        state = {"state": "running", "pid": supervisor.pid, "heartbeat": 1}
        (folder / "state.json").write_text(json.dumps(state))
        supervisor.send_signal(sign)
        outcomes: list[Followed] = []
        request = Follow(str(folder))
        thread = threading.Thread(target=lambda: outcomes.append(runs.follow(request)), daemon=True)
        thread.start()
        thread.join(10 if is_lost else 2)
        assert [outcome.lost for outcome in outcomes] == [True] * is_lost
        (folder / "state.json").write_text(json.dumps({**state, "state": "failed"}))
        thread.join(10)
        supervisor.kill()
