"""The agent receives data: what it requests, and its signs of life."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import queue
import threading
from pathlib import Path
from typing import Any

import pytest

from bootstrap.host.agent import commands, data
from bootstrap.untrusted import decode
from railhead.documents.agent.commands import CommandResult, Grown, Run
from railhead.documents.agent.data import (
    DataFolder,
    DataState,
    NeededParts,
    Received,
    ReceiveData,
)

FILES = {f"sub/{n}": bytes([n]) * n for n in range(1, 6)}
MANIFEST = tuple(
    (name, len(text), hashlib.sha256(text).hexdigest()) for name, text in FILES.items()
)
SECONDS = 20.0  # for what comes at once


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> queue.Queue[Any]:
    """What the agent sends, and its input: the contents of all files."""
    sent: queue.Queue[Any] = queue.Queue()
    for module in (commands, data):
        monkeypatch.setattr(module, "send_event", sent.put)
    monkeypatch.setattr(data, "IN", io.BytesIO(b"".join(FILES.values())))
    return sent


def test_files_are_requested_in_parts_whose_answers_are_within_the_bound(
    events: queue.Queue[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = [[10**7 + number, 10**9] for number in range(data.AT_ONCE)]
    assert decode.decoded(json.dumps({"event": {"need": request}}))["event"]["need"] == request
    monkeypatch.setattr(data, "AT_ONCE", 2)
    assert data.receive_data(ReceiveData(str(tmp_path / "d"), MANIFEST)) == Received(())
    requests = [events.get_nowait().need for _ in range(events.qsize())]
    assert requests == [((0, 0), (1, 0)), ((2, 0), (3, 0)), ((4, 0),)]
    assert {n: (tmp_path / "d" / n).read_bytes() for n in FILES} == FILES


def test_what_has_arrived_of_data_needs_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a home whose name is the pattern of another one."""
    for home, size in (("h[1]", 3), ("h1", 50)):
        (tmp_path / home / "data/d.part").mkdir(parents=True)
        for name in ("d.part/a", "d.incoming-0", "d.incoming-1", "e.incoming-0"):
            (tmp_path / home / "data" / name).write_bytes(b"x" * size)
    monkeypatch.setenv("HOME", str(tmp_path / "h[1]"))
    state = data.data_state(DataState(("~/data/d",)))
    assert state.folders == {"~/data/d": DataFolder(complete=False, there=9)}


def test_data_has_exactly_the_files_of_its_list(
    events: queue.Queue[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a program has written beside them does not stay; a file that it removed, or cut, comes
    back."""
    folder = tmp_path / "d"
    assert data.receive_data(ReceiveData(str(folder), MANIFEST)) == Received(())
    (folder / "sub/other").write_text("not of the data")
    (folder / "sub/1").unlink()
    monkeypatch.setattr(data, "IN", io.BytesIO(FILES["sub/1"]))
    assert data.receive_data(ReceiveData(str(folder), MANIFEST)) == Received(())
    assert {path.name for path in (folder / "sub").iterdir()} == {f"{n}" for n in range(1, 6)}
    (folder / "sub/4").unlink()
    (folder / "sub/4/deep").mkdir(parents=True)
    (folder / "sub/4/deep/x").write_text("in its way")
    (folder / "sub/5").chmod(0o600)
    (folder / "sub/5").write_bytes(FILES["sub/5"][:-1])
    monkeypatch.setattr(data, "IN", io.BytesIO(FILES["sub/4"] + FILES["sub/5"]))
    assert data.receive_data(ReceiveData(str(folder), MANIFEST)) == Received(())
    assert {name: (folder / name).read_bytes() for name in FILES} == FILES


def test_a_host_that_waits_for_another_of_its_home_is_not_silent(
    events: queue.Queue[Any], tmp_path: Path
) -> None:
    with (tmp_path / "d.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        request = ReceiveData(str(tmp_path / "d"), MANIFEST)
        thread = threading.Thread(target=data.receive_data, args=(request,))
        thread.start()
        assert events.get(timeout=SECONDS) == NeededParts(())
        assert not (tmp_path / "d.part").exists()
    thread.join(SECONDS)
    assert (tmp_path / "d/sub/5").read_bytes() == FILES["sub/5"]


def test_a_command_that_waits_for_the_shared_cache_is_not_silent(
    events: queue.Queue[Any], tmp_path: Path
) -> None:
    """Local hosts share it, and the first may fetch for hours on a slow line."""
    done: list[Any] = []
    request = Run(("true",), env={"UV_CACHE_DIR": str(tmp_path)}, fetches=True)
    with (tmp_path / "railhead.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread = threading.Thread(target=lambda: done.append(commands.run(request)))
        thread.start()
        assert isinstance(events.get(timeout=SECONDS), Grown)
        assert not done
    thread.join(SECONDS)
    assert done == [CommandResult(0, ())]
