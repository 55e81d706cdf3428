"""Checkpoints in a folder: whole or not used, the newest and the best kept."""

from __future__ import annotations

import itertools
import json
import os
import resource
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("numpy")

import numpy as np

from training.checkpoints.checkpoint import Checkpoints, Position
from training.results import TrainingError

POSITION = Position(step=1, epoch=2, samples=64, global_batch=32, lanes=8, tallies=(1.5, 64.0, 3.0))
SETTINGS = {"model": "cnn", "seed": 3}
ARRAYS: list[Any] = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(7, np.int64)]


def written(folder: Path, *steps: int, keep: int = 9) -> Checkpoints:
    store = Checkpoints(folder / "kept", keep)
    for step in steps:
        store.write(replace(POSITION, step=step), SETTINGS, ARRAYS)
    return store


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    newest, faults = written(tmp_path, 1).newest()
    assert newest is not None and faults == []
    assert (newest.position, newest.settings, newest.shapes) == (POSITION, SETTINGS, [[2, 3], []])
    for array, expected in zip(newest.arrays, ARRAYS, strict=True):
        assert array.dtype == expected.dtype and (array == expected).all()


def test_an_older_checkpoint_names_no_order_of_shards_and_has_the_first(tmp_path: Path) -> None:
    store = written(tmp_path, 1)
    path = store.folder / "step-00000001/manifest.json"
    document = json.loads(path.read_text())
    assert document["position"].pop("order") == 2, "the newest is written"
    path.write_text(json.dumps(document))
    newest, _ = store.newest()
    assert newest is not None and newest.position == replace(POSITION, order=1)


def test_what_a_kill_has_left_of_a_checkpoint_takes_no_space(tmp_path: Path) -> None:
    """A run that starts again writes its next checkpoint after another step."""
    store = written(tmp_path, 1)
    for use in (lambda: store.check_room(1), lambda: written(tmp_path, 3)):
        torn = store.folder / ".step-00000002.partial"
        torn.mkdir()
        (torn / "state.npz").write_bytes(b"x" * 1000)
        use()
        assert not torn.exists()
    assert store.names() == ["step-00000001", "step-00000003"]


def test_the_newest_by_number_is_used(tmp_path: Path) -> None:
    store = written(tmp_path, 99999999, 100000000, 7)
    newest, _ = store.newest()
    assert newest is not None and newest.position.step == 100000000


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("state.npz", b"short", "state.npz has another size"),
        ("state.npz", None, "state.npz has another sha256"),
        ("manifest.json", b'{"format": "x', "Unterminated string"),
        ("manifest.json", b"[]", "list indices"),
        ("manifest.json", b'{"format": "other", "version": 1}', "format 'other'"),
    ],
)
def test_a_torn_one_is_passed_over_with_its_reason(
    tmp_path: Path, file: str, content: bytes | None, reason: str
) -> None:
    store = written(tmp_path, 1, 2)
    path = store.folder / "step-00000002" / file
    altered = bytearray(path.read_bytes())
    altered[-1] ^= 1
    path.write_bytes(altered if content is None else content)
    newest, faults = store.newest()
    assert newest is not None and newest.position.step == 1
    (fault,) = faults
    assert "step-00000002 is incomplete" in fault and reason in fault


@pytest.mark.parametrize("limit", [100, 900], ids=["arrays", "manifest"])
def test_one_that_was_interrupted_leaves_no_checkpoint(tmp_path: Path, limit: int) -> None:
    """As on a full disk: no file of this process may become larger than `limit` bytes."""
    store = written(tmp_path, 1)
    first = store.folder / "step-00000001"
    settings = {**SETTINGS, "text": "x" * 1000}  # the manifest is larger than the arrays
    assert 100 < (first / "state.npz").stat().st_size < 900
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            store.write(replace(POSITION, step=2), settings, ARRAYS)
        manifests = [path.parent.name for path in store.folder.rglob("manifest.json")]
        assert limit == 900 or manifests == ["step-00000001"], "the manifest was not the last"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert store.names() == ["step-00000001"]
    store.write(replace(POSITION, step=2), SETTINGS, ARRAYS)
    assert [item.name for item in sorted(store.folder.iterdir())] == [*store.names()]


def test_both_files_are_on_the_disk_before_the_checkpoint_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a power failure leaves a checkpoint with its name and no content. The name is on
    the disk before older checkpoints are removed."""
    synced: list[str] = []
    links = Path("/proc/self/fd")
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(str((links / str(fd)).readlink())))
    written(tmp_path, 1)
    folder = tmp_path / "kept"
    partial = folder / ".step-00000001.partial"
    assert synced == [str(partial / "state.npz"), str(partial / "manifest.json"), str(folder)]


def killed_at(limit: int, event: int) -> None:
    """In a child: SIGKILL at the call of this number that changes the folder; as well when a file
    would become larger than `limit` bytes."""
    calls = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "ctypes.call_function")
    counted = itertools.count(1)

    def hook(name: str, _: Any) -> None:
        if name in calls and next(counted) == event:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def write_in_child(store: Checkpoints, position: Position, limit: int, event: int) -> bool:
    """Write a checkpoint in a child that may be killed; whether it was."""
    if (child := os.fork()) == 0:
        try:
            killed_at(limit, event)
            store.write(position, SETTINGS, ARRAYS)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("step", [1, 2], ids=["the same step again", "the next step"])
def test_a_kill_at_any_byte_or_call_leaves_a_whole_checkpoint(tmp_path: Path, step: int) -> None:
    """Only one is kept: at no moment there is none. `done` is written again at the last step."""
    store = written(tmp_path, 1, keep=1)
    first = store.folder / "step-00000001"
    size = max(file.stat().st_size for file in first.iterdir())
    position = replace(POSITION, step=step, done=True)
    read = []
    for limit, event in [
        *((n, 0) for n in range(0, size, 61)),
        *((size * 2, n) for n in range(26)),
    ]:
        shutil.rmtree(store.folder)
        before = written(tmp_path, 1, keep=1)
        was_killed = write_in_child(before, position, limit, event)
        newest, faults = before.newest()
        assert newest is not None and faults == [], (limit, event)
        assert newest.position in (POSITION, position)
        assert was_killed or newest.position == position
        assert all((a == b).all() for a, b in zip(newest.arrays, ARRAYS, strict=True))
        read.append((was_killed, newest.position.done))
    assert {(True, False), (True, True), (False, True)} == set(read)


def ended(step: int, loss: float, *, better: bool) -> Position:
    """A position at the end of an epoch that reached `loss`, or did not improve on it."""
    return Position(step=step, epoch=step, best=loss, waited=0 if better else 1)


def test_the_last_and_the_best_are_kept(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, keep=2)
    for position in (
        ended(1, 0.9, better=True),
        ended(2, 0.3, better=True),
        ended(3, 0.3, better=False),
        replace(POSITION, step=4),
        ended(5, 0.3, better=False),
    ):
        store.write(position, {}, ARRAYS)
    assert store.names() == ["step-00000002", "step-00000004", "step-00000005"]
    store.write(ended(6, 0.2, better=True), {}, ARRAYS)
    assert store.names() == ["step-00000005", "step-00000006"]


def test_without_room_a_training_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = SimpleNamespace(free=39_000_000)
    monkeypatch.setattr("shutil.disk_usage", lambda path: free)
    store = Checkpoints(tmp_path / "a/b", keep=2)
    store.check_room(9_750_000)
    with pytest.raises(TrainingError, match="4 of 10 MB need 40 MB, 39 MB are free"):
        store.check_room(10_000_000)


def test_the_manifest_has_the_position(tmp_path: Path) -> None:
    store = written(tmp_path, 1)
    document = json.loads((store.folder / "step-00000001/manifest.json").read_text())
    assert document["position"]["samples"] == 64
