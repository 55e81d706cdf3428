"""Checkpoints in the bucket during a run, and back from it, with the cloud's own library."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from places import ROOT
from standins import programs
from standins.runs.run_documents import run_document
from standins.runs.supervisor_here import SupervisorHere

from bootstrap.console.wait import wait_until
from bootstrap.host.attempts import run_state
from bootstrap.host.base.programs import NAME
from bootstrap.host.run import checkpoint_files
from bootstrap.host.upload import changes, live_upload, restore_checkpoints, upload
from bootstrap.host.upload.live_upload import CheckpointUpload, GrowingFiles
from railhead.documents.codec import encode
from railhead.documents.runs.manifest import Restored
from railhead.documents.runs.run import RunBucket

URL = "s3://results-b/runs/r1"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder."""
    folder = tmp_path / "r1"
    for name in ("checkpoints", "results/tensorboard", "logs"):
        (folder / name).mkdir(parents=True)
    return folder


def checkpoint(run: Path, step: int, text: str = "arrays") -> Path:
    """A complete checkpoint as our own training writes them."""
    folder = run / "checkpoints" / f"step-{step:08d}"
    folder.mkdir()
    (folder / "state.npz").write_text(f"{text} {step}")
    (folder / "manifest.json").write_text("{}")
    return folder


def own_file(run: Path, name: str, text: str, age: float = 60) -> Path:
    """A file of the program itself, last changed so many seconds ago."""
    path = run / "checkpoints" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def uploads(run: Path) -> CheckpointUpload:
    return CheckpointUpload(str(run), upload.destination(URL))


def content_of(folder: Path) -> dict[str, str]:
    """The files in a folder: {path: text}."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def restored(tmp_path: Path) -> tuple[dict[str, str], Restored]:
    """What comes back from the bucket: {path: content}, and the outcome."""
    folder = tmp_path / f"back-{time.monotonic_ns()}"
    outcome = restore_checkpoints.restore(upload.destination(URL), str(folder))
    return content_of(folder), outcome


def names(s3: Any) -> list[str]:
    objects = s3.list_objects_v2(Bucket="results-b").get("Contents", [])
    return sorted(item["Key"].removeprefix("runs/r1/") for item in objects)


def test_complete_checkpoints_come_back_and_torn_ones_stay_away(
    s3: Any, run: Path, tmp_path: Path
) -> None:
    checkpoint(run, 10)
    torn = checkpoint(run, 20)
    (torn / "manifest.json").unlink()
    partial = run / "checkpoints/.step-00000030.partial"
    partial.mkdir()
    (partial / "state.npz").write_text("half")
    own_file(run, "chief/ckpt-1.index", "index")
    assert uploads(run).step()
    programs.place(tmp_path)  # with our Python, in place of that of the uploader's environment
    argv = [sys.executable, "-I", str(tmp_path / NAME), "upload.restore_checkpoints", URL]
    process = subprocess.run([*argv, str(tmp_path / "back")], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert content_of(tmp_path / "back") == {
        "step-00000010/state.npz": "arrays 10",
        "step-00000010/manifest.json": "{}",
        "chief/ckpt-1.index": "index",
    }
    outcome = json.loads(process.stdout)
    assert (outcome["files"], outcome["damaged"]) == (3, [])


def test_the_bucket_keeps_what_the_folder_keeps_and_nothing_is_deleted(
    s3: Any, run: Path, tmp_path: Path
) -> None:
    sender = uploads(run)
    for step in range(1, 8):
        old = run / "checkpoints" / f"step-{step - 2:08d}"
        for path in old.glob("*"):
            path.unlink()
        if old.exists():
            old.rmdir()
        checkpoint(run, step)
        assert sender.step()
        texts, _ = restored(tmp_path)
        assert {name[:13] for name in texts} == {f"step-{n:08d}" for n in (step - 1, step) if n}
        assert all(text in ("{}", f"arrays {int(n[5:13])}") for n, text in texts.items())
    objects = [name for name in names(s3) if "/files/" in name]
    assert len(objects) == 6  # two checkpoints, and the place of the one that is uploaded next


def test_what_a_checkpoint_needs_is_uploaded_before_the_list_that_names_it(
    s3: Any, run: Path
) -> None:
    """A host that takes the run over would continue a step whose records it does not have."""
    listed = list[bool]()
    sender = CheckpointUpload(
        str(run),
        upload.destination(URL),
        lambda: listed.append("checkpoints/manifest.json" in names(s3)),
    )
    checkpoint(run, 10)
    assert sender.step() and listed == [False]
    assert "checkpoints/manifest.json" in names(s3)


def test_a_folder_that_was_removed_leaves_what_was_uploaded(
    s3: Any, run: Path, tmp_path: Path
) -> None:
    checkpoint(run, 10)
    sender = uploads(run)
    assert sender.step()
    shutil.rmtree(run / "checkpoints")
    assert sender.step()
    texts, _ = restored(tmp_path)
    assert texts["step-00000010/state.npz"] == "arrays 10"


def test_an_unchanged_folder_is_not_uploaded_again_even_by_another_process(
    s3: Any, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint(run, 10)
    loop = live_upload.LiveUpload(str(run), URL)
    assert loop.checkpoint_step()
    checkpoint(run, 20)
    again = uploads(run)
    sent: list[str] = []
    put = again.bucket.put

    def counted(_: Any, path: str, *rest: Any, **options: Any) -> None:
        sent.append(path)
        put(path, *rest, **options)

    monkeypatch.setattr(upload.Destination, "put", counted)
    assert again.step() and again.step()
    assert [Path(path).parent.name for path in sent] == ["step-00000020"] * 2


def test_files_of_a_program_wait_until_they_rest(s3: Any, run: Path) -> None:
    path = own_file(run, "latest.weights.h5", "half", age=0)
    sender = uploads(run)
    assert not sender.step() and not names(s3)
    os.utime(path, (time.time() - 60, time.time() - 60))
    assert sender.step() and "checkpoints/manifest.json" in names(s3)


def test_files_of_a_later_time_than_that_of_the_chief_are_uploaded_when_they_rest(
    s3: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a clock was set back, or on a file server whose clock is ahead."""
    monkeypatch.setattr(changes, "REST", 0.2)
    sender = uploads(run)
    own_file(run, "a.h5", "half", age=-3600)
    assert not sender.step()
    time.sleep(0.2)
    own_file(run, "a.h5", "whole", age=-3601)
    assert not sender.step()
    assert wait_until(sender.step, seconds=20, every=0.05)
    assert restored(tmp_path)[0] == {"a.h5": "whole"}


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_log_beside_a_checkpoint_does_not_delay_its_upload(
    s3: Any, run: Path, tmp_path: Path
) -> None:
    """One known by its name, and one that is appended to after a rest."""
    own_file(run, "ckpt-1.index", "one")
    log, events = own_file(run, "log.csv", "loss\n1\n"), "tb/events.out.tfevents.1.h"
    sender = uploads(run)
    assert sender.step()
    append(log, "2\n")
    own_file(run, events, "x", age=0)
    own_file(run, "ckpt-2.index", "two")
    assert not sender.step(), "the logs do not rest"
    files, _ = restored(tmp_path)
    assert files == {"ckpt-1.index": "one", "ckpt-2.index": "two", "log.csv": "loss\n1\n"}
    for path in (log, run / "checkpoints" / events):
        os.utime(path, (time.time() - 60, time.time() - 60))
    assert sender.step()
    assert restored(tmp_path)[0] == content_of(run / "checkpoints")


def test_a_file_that_is_replaced_again_and_again_is_named_and_the_others_are_uploaded(
    s3: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_upload, "PATIENCE", 0.2)
    own_file(run, "ckpt-1.index", "one")
    own_file(run, "latest.h5", "of step 1", age=0)
    program = live_upload.LiveUpload(str(run), URL)
    assert not program.checkpoint_step() and not names(s3)
    time.sleep(0.2)
    own_file(run, "latest.h5", "of step 2", age=0)
    assert not program.checkpoint_step()
    assert restored(tmp_path)[0] == {"ckpt-1.index": "one"}
    status = live_upload.load_status(str(run))
    assert status.failed == 0 and "latest.h5" in str(status.why)
    os.utime(run / "checkpoints/latest.h5", (time.time() - 60, time.time() - 60))
    assert program.checkpoint_step() and live_upload.load_status(str(run)).why is None


def test_of_more_files_than_a_list_takes_the_newest_are_uploaded_and_a_message_tells(
    s3: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program keeps all its checkpoints; it continues from the newest."""
    monkeypatch.setattr(checkpoint_files, "FILES", 3)
    for number in range(12):
        own_file(run, f"ckpt-{number}.index", str(number), age=600 - number)
    own_file(run, "checkpoint", "ckpt-11", age=500)
    program = live_upload.LiveUpload(str(run), URL)
    assert program.checkpoint_step()
    newest = {"checkpoint": "ckpt-11", "ckpt-11.index": "11", "ckpt-10.index": "10"}
    assert restored(tmp_path)[0] == newest
    assert "newest 3" in str(live_upload.load_status(str(run)).why)
    own_file(run, "ckpt-12.index", "12", age=400)
    assert program.checkpoint_step()
    assert restored(tmp_path)[0].keys() == {"checkpoint", "ckpt-12.index", "ckpt-11.index"}


def test_a_checkpoint_removed_during_its_upload_leaves_the_previous_ones(
    s3: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = uploads(run)
    checkpoint(run, 10)
    assert sender.step()
    newer = checkpoint(run, 20)
    put = sender.bucket.put

    def and_remove(_: Any, path: str, *rest: Any, **options: Any) -> None:
        put(path, *rest, **options)
        (newer / "state.npz").unlink(missing_ok=True)

    monkeypatch.setattr(upload.Destination, "put", and_remove)
    assert not sender.step()
    assert set(restored(tmp_path)[0]) == {"step-00000010/state.npz", "step-00000010/manifest.json"}


def test_a_file_that_changes_during_its_upload_leaves_the_previous_ones(
    s3: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entry would have the hash of what was uploaded, and the next file one of a later time."""
    sender = uploads(run)
    own_file(run, "a.h5", "1")
    assert sender.step()
    put = sender.bucket.put
    own_file(run, "a.h5", "2", age=50)

    def and_change(_: Any, path: str, *rest: Any, **options: Any) -> None:
        put(path, *rest, **options)
        own_file(run, "b.h5", "3", age=40)

    monkeypatch.setattr(upload.Destination, "put", and_change)
    assert not sender.step()
    assert restored(tmp_path)[0] == {"a.h5": "1"}


def test_a_failed_upload_is_counted_and_the_next_one_succeeds(s3: Any, run: Path) -> None:
    checkpoint(run, 10)
    loop = live_upload.LiveUpload(str(run), URL)

    def refuse(*_: Any, **options: Any) -> None:
        raise OSError("503 Slow Down")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upload.Destination, "put", refuse)
        assert not loop.checkpoint_step()
    status = live_upload.load_status(str(run))
    assert (status.failed, status.why) == (1, "OSError: 503 Slow Down")
    assert loop.checkpoint_step()
    assert live_upload.load_status(str(run)).why is None


@pytest.mark.parametrize(("log", "why"), [("/dev/full", "503"), ("/dev/null", "no \udcff.h5")])
def test_a_failure_that_cannot_be_noted_does_not_end_the_uploads(
    monkeypatch: pytest.MonkeyPatch, log: str, why: str
) -> None:
    """Their log is on the disk that the run has filled; and a file may have any name."""

    def refuse() -> None:
        raise OSError(why)

    with Path(log).open("wb", buffering=0) as file:
        stdout = io.TextIOWrapper(file, "utf-8", write_through=True)
        monkeypatch.setattr(sys, "stdout", stdout)
        assert live_upload.failure_of(refuse) == f"OSError: {why}"


def test_a_changed_object_is_left_out_and_named(s3: Any, run: Path, tmp_path: Path) -> None:
    checkpoint(run, 10)
    checkpoint(run, 20)
    assert uploads(run).step()
    s3.put_object(Bucket="results-b", Key="runs/r1/checkpoints/files/0003", Body=b"other")
    texts, outcome = restored(tmp_path)
    assert outcome.damaged == ("step-00000020/state.npz",)
    assert set(texts) == {
        "step-00000010/state.npz",
        "step-00000010/manifest.json",
        "step-00000020/manifest.json",
    }


def test_a_changed_object_does_not_end_the_restore_of_the_run_itself(
    s3: Any, run: Path, tmp_path: Path
) -> None:
    """A host that takes the run over keeps the times of the files that it gets."""
    whole, changed = own_file(run, "a.h5", "a"), own_file(run, "b.h5", "b")
    assert uploads(run).step()
    s3.put_object(Bucket="results-b", Key="runs/r1/checkpoints/files/0001", Body=b"other")
    back = tmp_path / "back"
    restored = restore_checkpoints.restore(upload.destination(URL), str(back), keep_times=True)
    assert restored.damaged == (changed.name,) and content_of(back) == {whole.name: "a"}
    assert (back / whole.name).stat().st_mtime_ns == whole.stat().st_mtime_ns


@pytest.mark.parametrize("path", ["../outside", "/etc/outside", "a/../../outside"])
def test_a_manifest_that_leads_out_of_the_folder_is_refused(
    s3: Any, run: Path, tmp_path: Path, path: str
) -> None:
    entry = {"path": path, "bytes": 1, "sha256": "0" * 64, "mtime_ns": 0, "object": 0}
    body = json.dumps({"schema": 1, "files": [entry]})
    s3.put_object(Bucket="results-b", Key="runs/r1/checkpoints/manifest.json", Body=body)
    with pytest.raises(ValueError, match=r"files\[0\].path must be"):
        restored(tmp_path)
    assert not list(tmp_path.rglob("outside"))


def test_a_restore_leaves_room_on_the_disk(
    s3: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint(run, 10)
    assert uploads(run).step()
    needed = len("arrays 10{}") + restore_checkpoints.RESERVED
    for free in (needed - 1, needed):
        monkeypatch.setattr("shutil.disk_usage", lambda _, f=free: SimpleNamespace(free=f))
        with nullcontext() if free == needed else pytest.raises(OSError, match="must stay free"):
            restore_checkpoints.restore(upload.destination(URL), str(tmp_path / "back"))


def test_growing_files_go_in_pieces_that_make_the_whole(s3: Any, run: Path) -> None:
    growing = GrowingFiles(str(run), upload.destination(URL))
    metrics = run / "results/metrics.jsonl"
    events = run / "results/tensorboard/events.out.tfevents.1.h1"
    for piece in ("one\n", "two\n", "three\n"):
        with metrics.open("a") as file:
            file.write(piece)
        events.write_text("the same")
        growing.step()
    uploaded = names(s3)
    assert uploaded == [
        "live/metrics.jsonl.000000000000",
        "live/metrics.jsonl.000000000004",
        "live/metrics.jsonl.000000000008",
        f"live/tensorboard/{events.name}.000000000000",
    ]
    bodies = [
        s3.get_object(Bucket="results-b", Key=f"runs/r1/{n}")["Body"].read() for n in uploaded
    ]
    assert b"".join(bodies[:3]) == metrics.read_bytes()


def test_a_line_that_a_full_disk_removes_again_is_in_no_piece(s3: Any, run: Path) -> None:
    """The next piece would continue it in the middle of another line."""
    growing, metrics = (
        GrowingFiles(str(run), upload.destination(URL)),
        run / "results/metrics.jsonl",
    )
    for text in ('{"step": 1}\n{"st', '{"step": 1}\n{"epoch": 2, "loss": 3}\n'):
        metrics.write_text(text)
        growing.step()
    bodies = [
        s3.get_object(Bucket="results-b", Key=f"runs/r1/{n}")["Body"].read() for n in names(s3)
    ]
    assert b"".join(bodies) == metrics.read_bytes()


def test_a_piece_that_was_not_uploaded_goes_with_the_next(s3: Any, run: Path) -> None:
    growing = GrowingFiles(str(run), upload.destination(URL))

    def refuse(*_: Any, **options: Any) -> None:
        raise OSError("503 Slow Down")

    (run / "results/metrics.jsonl").write_text("one\n")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(OSError, match="503"):
        patch.setattr(upload.Destination, "write", refuse)
        growing.step()
    growing.step()
    (name,) = names(s3)
    body = s3.get_object(Bucket="results-b", Key=f"runs/r1/{name}")["Body"].read()
    assert (name, body) == ("live/metrics.jsonl.000000000000", b"one\n")


DOCUMENT = run_document(bucket=RunBucket("s3://results-b", "client"))
STARTER = """
import sys; from bootstrap.host.base import json_file; from bootstrap.host.upload import live_upload
from railhead.documents.runs.run import RunDocument
run = json_file.read(sys.argv[1] + "/run.json", RunDocument)
process = live_upload.start(run, sys.argv[1])
print(process.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def client(home: Path) -> None:
    """What stands for the Python of the uploader's environment: it never ends."""
    python = home / ".railhead/envs/client/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexec sleep 600\n")
    python.chmod(0o755)


def test_the_uploads_are_none_of_the_runs_processes_and_end_when_it_ends(
    client: None, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILHEAD_RUN", "r1")
    monkeypatch.setenv("RAILHEAD_HOME", os.environ["HOME"])
    process = live_upload.start(DOCUMENT, str(run))
    assert isinstance(process, subprocess.Popen)
    marks = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    assert not [mark for mark in marks if mark.startswith((b"RAILHEAD_RUN=", b"RAILHEAD_HOME="))]
    assert live_upload.end(process, str(run)) == ""
    assert process.poll() is not None


def test_the_uploads_end_with_a_supervisor_that_is_killed(client: None, run: Path) -> None:
    (run / "run.json").write_text(json.dumps(encode(DOCUMENT)))
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    argv = [sys.executable, "-c", STARTER, str(run)]
    with subprocess.Popen(argv, env=environ, **pipes) as starter:
        assert starter.stdout
        stat = Path(f"/proc/{int(starter.stdout.readline())}/stat")
        assert stat.read_text().split()[2] != "Z"
        starter.kill()

    def gone() -> bool:
        try:
            return stat.read_text().rpartition(") ")[2][0] in "ZX"
        except OSError:
            return True

    assert wait_until(gone, seconds=60, every=0.05)


def test_uploads_that_have_ended_start_again_after_a_while(
    client: None, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a client that always fails fill no log."""
    starts = home / "starts"
    fails = f"#!/bin/sh\necho x >>{starts}; exit 1\n"
    (home / ".railhead/envs/client/bin/python").write_text(fails)
    run = SupervisorHere(tmp_path / "r1", monkeypatch, bucket=encode(DOCUMENT.bucket))
    state, document = run.supervisor.state, run.supervisor.run
    state.start_uploads(document)
    first = state.uploads
    assert isinstance(first, subprocess.Popen) and first.wait(60) == 1
    state.start_uploads(document)
    assert state.uploads is first
    monkeypatch.setattr(run_state, "AGAIN", 0.0)
    until_next = f"timeout 60 sh -c 'until [ $(wc -l <{starts}) = 2 ]; do sleep 0.1; done'"
    with subprocess.Popen(["sh", "-c", until_next]) as mpirun:
        assert run.supervisor.wait(mpirun) == 0
    state.end_uploads()
    assert "exit code 1" in state.unfinished[0]


def test_uploads_that_have_no_client_are_reported(run: Path) -> None:
    document = run_document(bucket=RunBucket("s3://results-b", "none"))
    missing = live_upload.start(document, str(run))
    assert "No such file" in live_upload.end(missing, str(run))


def test_a_name_that_no_manifest_may_have_leaves_out_its_whole_checkpoint() -> None:
    fixed = ["step-00000001/state.npz", "step-00000001/manifest.json"]
    torn = ["step-00000002/x\x07", "step-00000002/manifest.json"]
    assert checkpoint_files.complete([*fixed, *torn, "a\x07", "b"]) == [*fixed, "b"]


def test_a_folder_of_a_program_is_not_a_torn_checkpoint_of_the_training() -> None:
    of_program, torn = "step-00000010/model.keras", "step-00000011/state.npz"
    assert checkpoint_files.complete([of_program, torn]) == [of_program]
    assert checkpoint_files.newest([of_program]) == ""
