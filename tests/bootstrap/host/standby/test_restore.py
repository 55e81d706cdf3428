"""A run in its bucket, back in a folder of the host that takes it over, in stores of each cloud."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from standins.stores.object_stores import S3, Gcs

from bootstrap.host.attempts import points
from bootstrap.host.base import json_file
from bootstrap.host.output import recorded
from bootstrap.host.run import held
from bootstrap.host.standby.restore import restore
from bootstrap.host.upload import live_upload, restore_checkpoints, upload
from railhead.documents.codec import decode
from railhead.documents.runs import live_logs
from railhead.documents.runs.takeover import Taken, Term

Store = S3 | Gcs
RECORDS = '{"kind": "metric", "name": "loss", "number": 7, "time": 1.0}\n{"kind": "pro'
MORE = 'gress", "step": 41}\n{"kind": "progress", "step": 42}\n{"kind'


@pytest.fixture(params=["s3_store", "gcs_store"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The buckets of each cloud, for this process."""
    store: Store = request.getfixturevalue(request.param)
    for name, value in store.environ.items():
        monkeypatch.setenv(name, value)
    return store


def folder_of(path: Path, term: int) -> Path:
    """The folder of the run on the host that has this term."""
    for name in ("checkpoints", "results/tensorboard", "logs"):
        (path / name).mkdir(parents=True)
    held.begin(str(path), Term(term, f"h{term}", f"mark-{term}"), held.now())
    return path


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def files_in(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Content and time of the last change, by path."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mtime_ns) for p in paths}


def log_in_bucket(store: Store, name: str) -> bytes:
    """A log of the run, from its pieces in the bucket."""
    prefix, pieces = f"runs/r1/{live_logs.FOLDER}/{name}.", []
    for key in store.names("taken-over"):
        if key.startswith(prefix):
            head, _, data = store.get("taken-over", key).partition(b"\n")
            pieces.append((decode(live_logs.Piece, json.loads(head)), data))
    return b"".join(live_logs.joined(pieces))


class Refusing:
    """The objects of a bucket, of which some names are refused."""

    def __init__(self, objects: Any, refused: str) -> None:
        self.objects, self.refused = objects, refused

    def __getattr__(self, name: str) -> Any:
        return getattr(self.objects, name)

    def look(self, key: str) -> Any:
        if self.refused in key:
            raise ConnectionError("no answer")
        return self.objects.look(key)


def test_a_run_that_is_not_restored_replaces_no_checkpoint_in_the_bucket(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not all of it: the folder of this host stays as it was."""
    monkeypatch.setattr(restore_checkpoints, "PAUSES", ())
    store.make_bucket("not-restored")
    url = store.uri("not-restored", "runs/r1")
    first, second = folder_of(tmp_path / "first/r1", 1), folder_of(tmp_path / "second/r1", 2)
    add(first / "checkpoints/step", "40")
    os.utime(first / "checkpoints/step", (1, 1))
    add(first / "logs/rank-0.log", "line\n")
    uploads = live_upload.LiveUpload(str(first), url)
    assert uploads.checkpoint_step()
    uploads.growing.step()
    add(second / "checkpoints/of-rank-1", "its own")
    os.utime(second / "checkpoints/of-rank-1", (1, 1))
    before = files_in(second)
    bucket = upload.destination(url)
    with pytest.raises(ConnectionError):
        restore(replace(bucket, objects=Refusing(bucket.objects, "/live-logs/")), str(second), 2)
    incoming = second / "restored"
    assert (incoming / "checkpoints/step").exists()
    shutil.rmtree(incoming)
    assert files_in(second) == before

    json_file.save(str(second / "takeover.json"), Taken("h1", "it was not restored"))
    listed = store.get("not-restored", "runs/r1/checkpoints/manifest.json")
    assert live_upload.LiveUpload(str(second), url).checkpoint_step()
    assert store.get("not-restored", "runs/r1/checkpoints/manifest.json") == listed
    (second / "takeover.json").unlink()
    assert live_upload.LiveUpload(str(second), url).checkpoint_step()
    assert store.get("not-restored", "runs/r1/checkpoints/manifest.json") != listed


def test_a_request_that_fails_is_tried_again_and_its_last_error_is_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of any kind: each cloud's library has its own errors."""
    monkeypatch.setattr(restore_checkpoints, "PAUSES", (0, 0))
    for errors, outcome in ((2, "answer"), (3, "error 1")):
        left = [KeyError(f"error {number}") for number in range(1, errors + 1)]

        def request(left: list[KeyError] = left) -> str:
            if left:
                raise left.pop()
            return "answer"

        if outcome == "answer":
            assert restore_checkpoints.again(request) == outcome
        else:
            with pytest.raises(KeyError, match=outcome):
                restore_checkpoints.again(request)


def test_names_that_lead_out_of_the_folder_are_not_restored(store: Store, tmp_path: Path) -> None:
    """What the bucket has may be of a chief that others have taken."""
    store.make_bucket("hostile")
    files = dict.fromkeys(("../../../outside", "metrics.jsonl"), 3)
    logs: dict[str, Any] = {"../../../outside": {"number": 0}, "rank-0": {"number": 0}}
    index = json.dumps({"files": files, "logs": logs})
    store.put("hostile", "runs/r1/live.json", index.encode())
    store.put("hostile", f"runs/r1/{live_upload.piece_of('metrics.jsonl', 0)}", b"{}\n")
    second = folder_of(tmp_path / "second/r1", 2)
    restore(upload.destination(store.uri("hostile", "runs/r1")), str(second), 2)
    assert (second / "results/metrics.jsonl").read_bytes() == b"{}\n"
    assert (second / "logs/rank-0.log").exists() and not [*tmp_path.rglob("outside*")]


def test_a_run_comes_back_as_it_was_uploaded_and_its_uploads_continue(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.make_bucket("taken-over")
    url = store.uri("taken-over", "runs/r1")
    first = folder_of(tmp_path / "first/r1", 1)
    step = first / "checkpoints/step-00000040"
    step.mkdir()
    (step / "state.npz").write_text("arrays")
    (step / "manifest.json").write_text("{}")
    uploads = live_upload.LiveUpload(str(first), url)
    for text, line in ((RECORDS, "line\n" * 70_000), (MORE, "another\n")):
        add(first / "results/metrics.jsonl", text)
        add(first / "results/tensorboard/1.tfevents", text)
        add(first / "logs/rank-0.log", line)
        add(first / "logs/supervisor.log", line)
        if text == RECORDS:
            uploads.growing.step()
    assert uploads.checkpoint_step(), "it uploads the rest of the records first"
    add(first / "results/metrics.jsonl", "lost\n")

    second = folder_of(tmp_path / "second/r1", 2)
    restore(upload.destination(url), str(second), 2)
    results = files_in(second / "results")
    assert results["metrics.jsonl"][0].decode() == (RECORDS + MORE).removesuffix('{"kind')
    assert results["tensorboard/1.tfevents"][0].decode() == RECORDS + MORE
    assert files_in(second / "logs").keys() == {"rank-0.log"}, "its own supervisor.log is in use"
    log = (first / "logs/rank-0.log").read_bytes()
    assert (second / "logs/rank-0.log").read_bytes() == log
    assert files_in(second / "checkpoints") == files_in(first / "checkpoints")
    assert points.checkpoints(str(second)) == points.checkpoints(str(first))
    assert recorded.last_step(str(second)) == 42
    assert recorded.metric_numbers(str(second), 2.0) == {"loss": 7}

    continued = live_upload.LiveUpload(str(second), url)
    before = store.names("taken-over")
    assert continued.checkpoint_step() and store.names("taken-over") == before
    add(second / "results/metrics.jsonl", '{"step": 43}\n')
    add(second / "logs/rank-0.log", "of the second\n")
    add(second / "logs/supervisor.log", "of the second\n")
    continued.growing.step()
    of_both = (first / "logs/supervisor.log").read_bytes() + b"of the second\n"
    assert log_in_bucket(store, "supervisor") == of_both, "that of the lost chief stays"
    (second / "results/manifest.json").write_text('{"files": []}')
    upload.upload(str(second), url)
    assert store.get("taken-over", "runs/r1/manifest.json") == b'{"files": []}'
    third = folder_of(tmp_path / "third/r1", 3)
    restore(upload.destination(url), str(third), 3)
    assert recorded.last_step(str(third)) == 43
    assert (third / "logs/rank-0.log").read_bytes() == log + b"of the second\n"
