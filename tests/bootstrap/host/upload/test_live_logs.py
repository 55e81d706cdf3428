"""The logs of a run in its bucket: uploaded in pieces, read when the chief is gone."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from standins import programs
from standins.runs.manifests import manifest
from standins.stores.object_stores import S3, Gcs

from bootstrap.clouds.base import InstanceState
from bootstrap.clouds.bucket import Bucket, open_store
from bootstrap.console.wait import wait_until
from bootstrap.errors import HostsFailed, RailheadError, UsageError
from bootstrap.host.output.rank_output import LogFile, Secrets, WriteErrors
from bootstrap.host.upload import live_upload, upload
from bootstrap.host.upload import logs as live_logs
from bootstrap.host.upload.logs import LogUpload
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.lifecycle.power import ClusterStatus
from bootstrap.runs.bucket import logs as bucket_logs
from bootstrap.runs.run import Run
from bootstrap.untrusted.unpack import Hostile
from bootstrap.workflows import logs
from railhead.documents.runs import live_logs as documents
from railhead.documents.runs.live_logs import Piece, packed
from railhead.documents.runs.run_record import RunRecord
from railhead.documents.uri import bucket_uri

URL = "s3://results-b/runs/r1"


@dataclass
class Memory:
    """Objects in memory, for both sides."""

    url: str = "s3://results-b"
    content: dict[str, bytes] = field(default_factory=dict)

    def write(self, key: str, data: bytes, *, short_lived: bool = False) -> None:
        assert short_lived, "old versions would be kept for a week"
        self.content[key] = data

    def read(self, key: str) -> Iterator[bytes]:
        return iter([self.content[key]])

    def objects(self, prefix: str) -> Iterator[list[Any]]:
        keys = [key for key in sorted(self.content) if key.startswith(prefix)]
        yield [SimpleNamespace(key=key) for key in keys]


@dataclass
class Chief:
    """A run's folder, what it uploads to, and what a reader gets."""

    folder: Path
    store: Any = field(default_factory=Memory)

    def __post_init__(self) -> None:
        for name in ("logs", "results"):
            (self.folder / name).mkdir(parents=True)

    def sender(self, earlier: LogUpload | None = None) -> LogUpload:
        target: Any = upload.Destination(bucket_uri(URL), self.store)
        return LogUpload(str(self.folder), target, earlier.logs if earlier else {})

    def log(self, name: str, limit: float = float("inf")) -> LogFile:
        return LogFile(str(self.folder / f"logs/{name}.log"), WriteErrors(), limit)

    def pieces(self) -> list[bytes]:
        return [piece for key, piece in self.store.content.items() if "/live-logs/" in key]

    def read(self, name: str = "rank-0") -> bucket_logs.BucketLog:
        return bucket_logs.read(Bucket(self.store), Run("r1", self.folder / "here"), name)


@pytest.fixture
def chief(tmp_path: Path) -> Chief:
    return Chief(tmp_path / "r1")


@pytest.mark.parametrize("seed", range(6))
def test_what_was_written_is_what_is_read(
    chief: Chief, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Lines, rotations, full pieces and new processes come in any order. Between two steps, a log
    is rotated at most once."""
    dice = random.Random(seed)
    monkeypatch.setattr(live_logs, "PIECE", 100)
    sender, rows = chief.sender(), []
    with closing(chief.log("rank-0", limit=1000)) as log:
        for number in range(400):
            rows.append(f"{number} é" + "x" * dice.randrange(30))
            log.add(rows[-1].encode())
            if dice.random() < 0.1 or number % 20 == 19:
                sender.step()
            if dice.random() < 0.05:
                sender = chief.sender(sender)
        sender.step()
    assert (chief.folder / "logs/rank-0.log.1").exists(), "it was rotated"
    assert chief.read().text == "\n".join(rows) + "\n"
    assert max(map(len, chief.pieces())) < 100 + documents.HEAD


def test_a_log_takes_a_bounded_number_of_objects_and_has_its_end(
    chief: Chief, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_logs, "PIECE", 100)
    monkeypatch.setattr(documents, "PIECES", 8)
    sender = chief.sender()
    with closing(chief.log("rank-0")) as log:
        for number in range(100):
            log.add(f"line {number:04d}".encode())  # 10 bytes with its end
            sender.step()
    assert len(chief.pieces()) <= 8
    first, *rest = chief.read().text.strip().split("\n")
    assert first == "[200 or more bytes of the log are not in the bucket]"
    assert rest == [f"line {number:04d}" for number in range(20, 100)]


def test_of_a_burst_the_last_part_is_uploaded(
    chief: Chief, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_logs, "STEP", 50)
    sender = chief.sender()
    with closing(chief.log("rank-0")) as log:
        for numbers in (range(3), range(3, 100)):
            for number in numbers:
                log.add(f"line {number:04d}".encode())
            sender.step()
    rows = [f"line {number:04d}" for number in (0, 1, 2)]
    rows += ["", "[920 or more bytes of the log are not in the bucket]"]
    assert chief.read().text.split("\n") == [*rows, *(f"line {n:04d}" for n in range(95, 100)), ""]


def test_a_log_that_was_rotated_twice_during_an_outage_is_read_from_its_beginning(
    chief: Chief,
) -> None:
    """A disk gives the new log the inode of the one that it removed: it is another file."""
    sender = chief.sender()
    with closing(chief.log("rank-0", limit=20)) as log:
        for number in range(3):  # in one file
            log.add(f"line {number:04d}".encode())
        sender.step()
        for number in range(3, 11):
            log.add(f"line {number:04d}".encode())
        sender.step()
    lines = chief.read().text.split("\n")
    older = (chief.folder / "logs/rank-0.log.1").read_text()
    whole = older + (chief.folder / "logs/rank-0.log").read_text()
    assert whole.startswith("line 0006"), "it was rotated twice"
    lost = ["", "[1 or more bytes of the log are not in the bucket]"]
    assert lines == [*(f"line {number:04d}" for number in range(3)), *lost, *whole.split("\n")]


def test_what_follows_an_incomplete_line_that_was_removed_is_whole(chief: Chief) -> None:
    """As a log removes it on a full disk; the piece with it is in the bucket."""
    path, sender = chief.folder / "logs/rank-0.log", chief.sender()
    path.write_text("one\nhalf a li")
    sender.step()
    os.truncate(path, len("one\n"))
    sender.step()
    with path.open("a") as log:
        log.write("the first words, and all others\n")
    sender.step()
    assert chief.read().text == "one\nhalf a lithe first words, and all others\n"


def test_pieces_are_of_the_logs_of_a_run_and_of_nothing_else(chief: Chief) -> None:
    for name in ("rank-0", "rank-17", "mpirun", "supervisor", "upload", "rank-x", "own"):
        (chief.folder / f"logs/{name}.log").write_text(f"{name}\n")
    (chief.folder / "logs/rank-2.log").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic links"):
        chief.sender().step()
    (chief.folder / "logs/rank-2.log").unlink()
    chief.sender().step()
    keys = {key.removeprefix("runs/r1/live-logs/") for key in chief.store.content}
    assert keys == {f"{name}.0000" for name in ("rank-0", "rank-17", "mpirun", "supervisor")}
    with pytest.raises(UsageError, match="has no log rank-5; choices: 0, 17, mpirun, supervisor"):
        chief.read("rank-5")


def test_the_log_of_the_results_replaces_the_pieces(
    chief: Chief, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("rank-0", "supervisor"):
        (chief.folder / f"logs/{name}.log").write_text(f"{name}\n")
    sender = chief.sender()
    sender.step()
    (chief.folder / "logs/rank-0.log").write_text("rank-0\nthe end\n")
    listed = json.dumps(manifest(str(chief.folder)))
    (chief.folder / "results/manifest.json").write_text(listed)
    chief.store.content["runs/r1/manifest.json"] = listed.encode()
    chief.store.content["runs/r1/logs/rank-0.log"] = b"rank-0\nthe end\n"
    monkeypatch.setattr(live_logs, "EMPTYING", -1.0)
    chief.sender(sender).empty()
    assert chief.store.content["runs/r1/live-logs/rank-0.0000"], "the machines wait no longer"
    monkeypatch.setattr(live_logs, "EMPTYING", 60.0)
    chief.sender(sender).empty()
    assert chief.store.content["runs/r1/live-logs/rank-0.0000"] == b""
    assert (chief.read().text, chief.read("supervisor").text) == (
        "rank-0\nthe end\n",
        "supervisor\n",
    )
    assert "the complete log" in chief.read().source
    chief.store.content["runs/r1/logs/rank-0.log"] = b"rank-0\nanother\n"
    with pytest.raises(Exception, match="differs from its manifest"):
        chief.read()


HEAD = b'{"begin": 0, "at": 1.0}\n'
HOSTILE = {
    "more bytes than a piece has": HEAD + b"x" * (documents.PIECE + documents.HEAD + 1),
    "no head": b"x" * 1000,
    "a head that is not JSON": b"{\n",
    "another document": b"[]\n",
    "a negative begin": b'{"begin": -1, "at": 1.0}\n',
    "a time that is no number": b'{"begin": 0, "at": "now"}\n',
    "a time after all calendars": b'{"begin": 0, "at": 1e300}\n',
    "a time after the year 9999": b'{"begin": 0, "at": 1e12}\n',
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_what_is_not_a_piece_is_refused(chief: Chief, content: bytes) -> None:
    chief.store.content["runs/r1/live-logs/rank-0.0000"] = content
    with pytest.raises(Hostile):
        chief.read()


def test_objects_with_other_names_are_ignored(chief: Chief) -> None:
    for name in ("rank-0.../../x", "rank-0.1", "rank-0.0000.0000", "rank-0.9999", "rank-00.0000"):
        chief.store.content[f"runs/r1/live-logs/{name}"] = packed(Piece(0, 1.0), b"no")
    for number, piece, data in ((0, Piece(4, 60.0), b"no\n"), (1, Piece(0, 120.0), b"yes\n")):
        chief.store.content[f"runs/r1/live-logs/rank-0.{number:04d}"] = packed(piece, data)
    log = chief.read()
    assert log.text == "yes\nno\n" and "the log until 1970-01-01 00:02:00 UTC" in log.source


# --- fab logs


@pytest.fixture
def cluster(chief: Chief, monkeypatch: pytest.MonkeyPatch) -> Inventory:
    """A recorded cluster with a run, whose chief refuses connections and whose logs are in the
    bucket."""
    hosts = (Host("h1", "127.0.0.1", port=9), Host("h2", "127.0.0.2", port=9))
    inventory = Inventory("dev", hosts, cloud="aws", region="us-east-1", bucket="s3://results-b")
    local_state.save_cluster(inventory)
    local_state.save_run(RunRecord("r1", "dev", str(chief.folder / "here")))
    monkeypatch.setattr(logs, "bucket_of", lambda inventory: Bucket(chief.store))
    (chief.folder / "logs/rank-1.log").write_text("step 1\rstep 2\n\x1b[31mred\x1b[0m\n")
    chief.sender().step()
    return inventory


STATES: dict[str, dict[str, InstanceState]] = {
    "stopped": {"h1": InstanceState("stopped", None, "EC2", "now")},
    "terminated": {"h1": InstanceState("missing", None, "EC2", "now")},
    "unreachable": {},
}


@pytest.mark.parametrize("states", STATES.values(), ids=STATES)
@pytest.mark.parametrize("follow", [False, True])
def test_a_log_comes_from_the_bucket_when_the_chief_is_gone(
    cluster: Inventory,
    capsys: pytest.CaptureFixture[str],
    states: dict[str, InstanceState],
    follow: bool,
) -> None:
    status = ClusterStatus(cluster, states, "aws")
    logs.show(status, "r1", "1", follow=follow, start=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3:-1] == ["step 2", "red"], "the last state of each line, without escapes"
    assert lines[-1].startswith("s3://results-b/runs/r1: the log until 20")


def test_without_a_bucket_the_error_is_that_of_the_connection(cluster: Inventory) -> None:
    alone = Inventory("dev", cluster.hosts)
    with pytest.raises(HostsFailed):
        logs.show(ClusterStatus(alone, {}, "hosts"), "r1", "1", follow=False, start=False)


@pytest.mark.parametrize("states", STATES.values(), ids=STATES)
def test_the_log_of_fetched_results_needs_no_chief(
    cluster: Inventory, capsys: pytest.CaptureFixture[str], states: dict[str, InstanceState]
) -> None:
    """Results that were fetched during the run may have less than the chief: they do not count."""
    alone = ClusterStatus(replace(cluster, bucket=None), states, "aws")
    here = local_state.recorded_run("r1").results
    (Path(here) / "logs").mkdir(parents=True)
    for rank in ("0", "1"):
        (Path(here) / f"logs/rank-{rank}.log").write_text(f"of {rank}\n")
    with pytest.raises(RailheadError):
        logs.show(alone, "r1", "1", follow=False, start=False)
    (Path(here) / "result.json").write_text("{}")
    capsys.readouterr()
    logs.show(alone, "r1", "1", follow=False, start=False)
    assert capsys.readouterr().out.splitlines()[-2] == "of 1"


# --- The process, on real servers


class Emulator:
    """Google's emulator, which needs no login."""

    def __init__(self, store: Gcs, name: str) -> None:
        self.store, self.name, self.url = store, name, f"gs://{name}"
        self.bucket = upload.destination(f"{self.url}/runs/r1").objects

    def read(self, key: str) -> Iterator[bytes]:
        if key not in self.store.names(self.name, key):
            raise KeyError(key)
        return self.bucket.read(key)

    def objects(self, prefix: str) -> Iterator[list[Any]]:
        yield [SimpleNamespace(key=key) for key in self.store.names(self.name, prefix)]


def started(run: Path, url: str, environ: dict[str, str]) -> subprocess.Popen[bytes]:
    """The uploads of a run, with a second in place of 40."""
    programs.place(run)
    programs.change(run, "upload/live_upload.py", "LIVE_PAUSE = 40.0", "LIVE_PAUSE = 1.0")
    argv = programs.command(run, "upload.live_upload", str(run), url, "always")
    argv.remove("-S")  # it needs the packages of this Python, in place of the uploader's
    return subprocess.Popen(argv, env={**os.environ, **environ})


@pytest.mark.parametrize("fixture", ["s3_store", "gcs_store"])
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_a_chief_that_is_killed_takes_the_last_seconds_of_its_logs(
    fixture: str,
    sign: signal.Signals,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was there before is in the bucket, with secrets redacted; after SIGTERM, the end of the
    run, all of it is. A pause and an upload are less than a minute."""
    store: S3 | Gcs = request.getfixturevalue(fixture)
    name = f"logs-{sign.name.lower()}"
    store.make_bucket(name)
    for variable, value in {**store.environ, "NO_PROXY": "127.0.0.1"}.items():
        monkeypatch.setenv(variable, value)
    objects = open_store(f"s3://{name}") if isinstance(store, S3) else Emulator(store, name)
    chief = Chief(tmp_path / "r1", objects)
    secrets = Secrets(["s3cret-value"])
    rows: list[str] = []
    with closing(chief.log("rank-3", limit=20_000)) as log:

        def write(count: int) -> None:
            for _ in range(count):
                rows.append(f"{len(rows)} token s3cret-value " + "x" * 80)
                log.add(secrets.redact(rows[-1].encode()))

        write(150)
        process = started(chief.folder, store.uri(name, "runs/r1"), dict(store.environ))
        try:
            assert wait_until(lambda: has_row(chief, 149), seconds=120, every=0.5)
            write(150)
            assert wait_until(lambda: has_row(chief, 299), seconds=120, every=0.5)
            write(1)
        finally:
            process.send_signal(sign)
            process.wait(60)
    assert (chief.folder / "logs/rank-3.log.1").exists()
    shutil.rmtree(chief.folder)
    text = chief.read("rank-3").text
    redacted = [row.replace("s3cret-value", "[secret]") for row in rows]
    assert text.splitlines()[:300] == redacted[:300]
    assert sign == signal.SIGKILL or text.splitlines() == redacted
    assert live_upload.LIVE_PAUSE <= 45


def has_row(chief: Chief, number: int) -> bool:
    try:
        return f"\n{number} token" in chief.read("rank-3").text
    except UsageError:
        return False


def test_pieces_that_overlap_are_read_once() -> None:
    """A piece that was uploaded again with more, by a process that did not know the first."""
    pieces = [(Piece(4, 2.0), b"efgh"), (Piece(0, 1.0), b"abcdef"), (Piece(5, 1.0), b"f")]
    assert b"".join(documents.joined([*pieces, (Piece(8, 3.0), b"i")])) == b"abcdefghi"
