"""A run in its bucket, back in a folder of the host that takes it over, on a real S3."""

from __future__ import annotations

from pathlib import Path

import pytest
from standins.stores.object_stores import S3

from bootstrap.remote.attempts import points, restarts
from bootstrap.remote.run import live_upload, upload
from bootstrap.remote.takeover import held
from bootstrap.remote.takeover.restore import restore
from railhead.documents.runs.takeover import Term

URL = "s3://taken-over/runs/r1"
RECORDS = '{"kind": "metric", "name": "loss", "number": 7, "time": 1.0}\n{"kind": "pro'
MORE = 'gress", "step": 41}\n{"kind": "progress", "step": 42}\n{"kind'


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


def test_a_run_comes_back_as_it_was_uploaded_and_its_uploads_continue(
    s3_store: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_store.environ.items():
        monkeypatch.setenv(name, value)
    s3_store.make_bucket("taken-over")
    first = folder_of(tmp_path / "first/r1", 1)
    step = first / "checkpoints/step-00000040"
    step.mkdir()
    (step / "state.npz").write_text("arrays")
    (step / "manifest.json").write_text("{}")
    uploads = live_upload.LiveUpload(str(first), URL)
    for text, line in ((RECORDS, "line\n" * 70_000), (MORE, "another\n")):
        add(first / "results/metrics.jsonl", text)
        add(first / "results/tensorboard/1.tfevents", text)
        add(first / "logs/rank-0.log", line)
        add(first / "logs/supervisor.log", line)
        uploads.growing.step()
    assert uploads.checkpoint_step()
    add(first / "results/metrics.jsonl", "lost\n")

    second = folder_of(tmp_path / "second/r1", 2)
    restore(upload.destination(URL), str(second), 2)
    results = files_in(second / "results")
    assert results["metrics.jsonl"][0].decode() == RECORDS + MORE + "\n"
    assert results["tensorboard/1.tfevents"][0].decode() == RECORDS + MORE
    assert files_in(second / "logs").keys() == {"rank-0.log"}, "its own supervisor.log is in use"
    log = (first / "logs/rank-0.log").read_bytes()
    assert (second / "logs/rank-0.log").read_bytes() == log
    assert files_in(second / "checkpoints") == files_in(first / "checkpoints")
    assert points.checkpoints(str(second)) == points.checkpoints(str(first))
    assert restarts.last_step(str(second)) == 42
    assert restarts.metric_numbers(str(second), 2.0) == {"loss": 7}

    continued = live_upload.LiveUpload(str(second), URL)
    before = s3_store.names("taken-over")
    assert continued.checkpoint_step() and s3_store.names("taken-over") == before
    add(second / "results/metrics.jsonl", '{"step": 43}\n')
    add(second / "logs/rank-0.log", "of the second\n")
    add(second / "logs/supervisor.log", "of the second\n")
    continued.growing.step()
    third = folder_of(tmp_path / "third/r1", 3)
    restore(upload.destination(URL), str(third), 3)
    assert restarts.last_step(str(third)) == 43
    assert (third / "logs/rank-0.log").read_bytes() == log + b"of the second\n"
