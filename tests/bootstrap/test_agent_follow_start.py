"""`follow` waits for a supervisor that has written nothing yet, and not for ever."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from bootstrap.remote.agent import agent, channel


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(channel, "OUT", io.BytesIO())
    run = tmp_path / "20261122-101500-00ff"
    run.mkdir()
    return run


def test_a_run_without_a_supervisor_is_lost_after_a_bounded_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "STARTING", 0.3)
    assert agent.follow(str(folder))["lost"] is True


def test_a_supervisor_that_is_slow_to_start_is_waited_for(folder: Path) -> None:
    found: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: found.append(agent.follow(str(folder))), daemon=True)
    thread.start()
    thread.join(1)
    assert thread.is_alive(), "it was given up before it could write its state"
    (folder / "state.json").write_text(json.dumps({"state": "succeeded", "pid": 7}))
    thread.join(10)
    assert found == [{"offset": 0, "lost": False}]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"state": 5, "pid": "x"}'])
def test_a_damaged_state_without_a_supervisor_ends(folder: Path, text: str) -> None:
    (folder / "state.json").write_text(text)
    found: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: found.append(agent.follow(str(folder))), daemon=True)
    thread.start()
    thread.join(10)
    assert found
