"""Mode `file`: data of buckets, downloaded into the cache of a host."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from places import ROOT
from samples.shards import make_shards, upload

from bootstrap.console import wait
from railhead.documents.names import MANIFEST, is_manifest
from training.config import ConfigError
from training.data import DataError, cache
from training.data.__main__ import main as data_command
from training.data.part import Part
from training.data.store import Folder, open_store
from training.results import PREFIX


def downloaded(uri: str, part: str = "0/1") -> Path:
    made = open_store(uri)
    return cache.download_all(made, Part.parse(part).of(made.items()), lambda text: None)


def files(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_a_download_is_the_same_and_is_done_once(
    place: Callable[[str], str], tmp_path: Path
) -> None:
    (tmp_path / "a/deep").mkdir(parents=True)
    (tmp_path / "a/deep/large").write_bytes(os.urandom(2 * cache.RANGE + 5))
    (tmp_path / "a/empty").touch()
    upload(tmp_path / "a", place("p"))
    folder = downloaded(place("p"))
    assert files(folder) == files(tmp_path / "a")
    assert folder.parent == Path.home() / ".railhead/data"
    (folder / "deep/large").unlink()
    assert downloaded(place("p")) == folder
    assert not list(folder.rglob("large")), "it was downloaded again"


@pytest.mark.parametrize(("in_run", "prefix"), [(True, PREFIX), (False, "")])
def test_the_end_of_a_download_is_reported_before_its_folder(
    in_run: bool,
    prefix: str,
    s3: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a run as a record: a rank takes the last other line for the folder."""
    open_store(s3("p")).put("x", bytes(1_500_000))
    monkeypatch.delenv("RAILHEAD_RUN_FILE", raising=False)
    if in_run:
        monkeypatch.setenv("RAILHEAD_RUN_FILE", "run.json")
    assert data_command(["download", s3("p")]) == 0
    reported, folder = capsys.readouterr().out.splitlines()
    assert reported.startswith(prefix) and f"{s3('p')}: 2 of 2 MB" in reported
    assert in_run == ('"kind": "message"' in reported) and (Path(folder) / "x").exists()


def test_another_content_is_another_folder(s3: Callable[[str], str], tmp_path: Path) -> None:
    made = open_store(s3("p"))
    made.put("x", b"one")
    first = downloaded(s3("p"))
    made.put("x", b"two")
    assert files(downloaded(s3("p"))) == {"x": b"two"} and files(first) == {"x": b"one"}


def test_a_part_that_is_longer_than_its_file_is_read_again(tmp_path: Path) -> None:
    """And what was in the making is not among the data."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x").write_bytes(b"content")
    made = Folder(tmp_path / "a")
    (file,) = cache.remote_files(made, made.items())
    begun = cache.Download(made, file, tmp_path / "b").partial
    begun.parent.mkdir(parents=True)
    begun.write_bytes(b"of an earlier, longer file")
    cache.download(made, [file], tmp_path / "b", lambda text: None)
    assert (tmp_path / "b/x").read_bytes() == b"content"
    folder = cache.download_all(made, made.items(), lambda text: None)
    assert [path.name for path in folder.iterdir()] == ["x"]


def test_the_part_of_another_version_is_not_continued(tmp_path: Path) -> None:
    """Of a file without a hash the mixture would not be noticed."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x").write_bytes(b"content")
    made = Folder(tmp_path / "a")
    (file,) = cache.remote_files(made, made.items())
    for etag in (file.etag, "another"):
        begun = cache.Download(made, replace(file, etag=etag), tmp_path / etag).partial
        begun.parent.mkdir(parents=True)
        begun.write_bytes(b"CON")
        cache.download(made, [file], tmp_path / etag, lambda text: None)
    assert (tmp_path / file.etag / "x").read_bytes() == b"CONtent"
    assert (tmp_path / "another/x").read_bytes() == b"content"


def test_parts_are_disjoint_and_share_the_manifest(
    s3: Callable[[str], str], tmp_path: Path
) -> None:
    make_shards(tmp_path / "a")
    upload(tmp_path / "a", s3("p"))
    halves = [set(files(downloaded(s3("p"), part))) for part in ("0/2", "1/2")]
    shared = halves[0] & halves[1]
    assert MANIFEST in shared and len(shared) == 2 and all(map(is_manifest, shared))
    assert sorted(halves[0] ^ halves[1]) == [f"shard-{number}.tfrecord" for number in range(3)]
    with pytest.raises(DataError, match="part 3/5 is empty"):
        downloaded(s3("p"), "3/5")
    for text in ("2/2", "x", "1/"):
        with pytest.raises(ConfigError, match="a part is written I/N"):
            Part.parse(text)


def test_an_interrupted_download_goes_on_where_it_was(
    s3: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "RANGE", 1000)
    make_shards(tmp_path / "a")
    upload(tmp_path / "a", s3("p"))
    made = open_store(s3("p"))
    read = made.read_range
    ranges: list[Any] = []

    def interrupted(name: str, start: int, end: int) -> Any:
        ranges.append((name, start, end))
        if name == "shard-1.tfrecord" and start >= 5000:
            raise DataError("the connection is gone")
        return read(name, start, end)

    monkeypatch.setattr(made, "read_range", interrupted)
    remote = cache.remote_files(made, made.items())
    with pytest.raises(DataError, match="the connection is gone"):
        cache.download(made, remote, tmp_path / "b", print)
    assert sorted(files(tmp_path / "b"))[2:] == ["manifest.json", "shard-0.tfrecord"]
    ranges.clear()
    monkeypatch.setattr(made, "read_range", noted(read, ranges))
    cache.download(made, remote, tmp_path / "b", print)
    assert ranges[0][:2] == ("shard-1.tfrecord", 5000)
    shutil.rmtree(tmp_path / "b/.part")
    assert files(tmp_path / "b") == files(tmp_path / "a")


def noted(read: Callable[..., Any], ranges: list[Any]) -> Callable[..., Any]:
    def read_range(*arguments: Any) -> Any:
        ranges.append(arguments)
        return read(*arguments)

    return read_range


def test_processes_of_one_host_download_once(s3: Callable[[str], str], tmp_path: Path) -> None:
    make_shards(tmp_path / "a")
    upload(tmp_path / "a", s3("p"))
    command = [sys.executable, "-m", "training.data", "download", s3("p")]
    started = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    outputs = [process.communicate(timeout=60)[0].splitlines() for process in started]
    assert len({output[-1] for output in outputs}) == 1
    assert sum(any("MB/s" in line for line in output) for output in outputs) == 1
    assert files(Path(outputs[0][-1])) == files(tmp_path / "a")


def test_a_process_that_waits_says_so(s3: Callable[[str], str], tmp_path: Path) -> None:
    open_store(s3("p")).put("x", b"one")
    texts: list[str] = []
    with cache.locked(tmp_path / "a", print), (tmp_path / "b.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = threading.Thread(target=lambda: lock_once(tmp_path / "b", texts.append))
        waiting.start()
        assert wait.wait_until(lambda: bool(texts), seconds=60, every=0.02)
        fcntl.flock(lock, fcntl.LOCK_UN)
        waiting.join(20)
    assert texts == ["waiting for the data that another process of this host downloads", "mine"]


def lock_once(folder: Path, report: cache.Report) -> None:
    with cache.locked(folder, report):
        report("mine")


def altered(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[50] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (Path.unlink, "shard s3://.*/shard-1.tfrecord is missing"),
        (lambda path: path.write_bytes(b"short"), "has 5 bytes, the manifest says"),
        (altered, "shard-1.tfrecord is altered: its sha256 is not"),
    ],
)
def test_shards_that_are_wrong_are_named(
    s3: Callable[[str], str],
    tmp_path: Path,
    damage: Callable[[Path], None],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_shards(tmp_path / "a")
    damage(tmp_path / "a/shard-1.tfrecord")
    upload(tmp_path / "a", s3("p"))
    with pytest.raises(DataError, match=message):
        downloaded(s3("p"))
    assert not list((Path.home() / ".railhead/data").glob("*[!k]/shard-1.tfrecord"))
    assert data_command(["verify", s3("p")]) == 1
    assert "shard-1.tfrecord" in capsys.readouterr().err


def test_shards_of_a_bucket_are_verified_and_shown(
    place: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_shards(tmp_path / "a")
    upload(tmp_path / "a", place("p"))
    assert data_command(["verify", place("p")]) == data_command(["show", place("p")]) == 0
    assert f"{place('p')}: 150 records in 3 shards" in capsys.readouterr().out


def test_no_space_is_known_before(s3: Callable[[str], str], monkeypatch: Any) -> None:
    open_store(s3("p")).put("x", b"x" * 1000)
    free = cache.RESERVE + 999
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(0, 0, free))
    with pytest.raises(
        DataError, match=f"no space for s3://.*: 1000 bytes .* {free} bytes are free"
    ):
        downloaded(s3("p"))


def test_a_file_that_changes_meanwhile_is_refused(s3: Callable[[str], str]) -> None:
    made = open_store(s3("p"))
    made.put("x", b"one")
    items = made.items()
    made.put("x", b"two")
    with pytest.raises(DataError, match="p/x changed while it was downloaded"):
        cache.download_all(made, items, print)
    assert not [*cache.root().glob("*.partial")], "the size alone would not show which one it is"


def test_a_download_stays_where_its_bucket_does_not_answer_at_the_end(
    s3: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a file has changed is not known: the next download need not begin again."""
    made = open_store(s3("p"))
    made.put("x", b"one")
    items = made.items()
    fault = DataError("the bucket does not answer")
    with monkeypatch.context() as patch:
        patch.setattr(made, "items", Mock(side_effect=fault))
        with pytest.raises(DataError, match="does not answer"):
            cache.download_all(made, items, print)
    monkeypatch.setattr(made, "read_range", Mock(side_effect=fault))
    assert files(cache.download_all(made, items, print)) == {"x": b"one"}


@pytest.mark.parametrize("name", ["../x", "a//b", "/x", "a/../../x", ".part/x", "a/\0"])
def test_names_that_lead_out_of_the_folder_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be a file's"):
        cache.inside(tmp_path, name)


def test_a_cache_that_cannot_be_written_is_named(
    s3: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not a folder; or the disk becomes full meanwhile: here no file may become larger."""
    open_store(s3("p")).put("x", bytes(20_000))
    (tmp_path / "file").touch()
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file"))
    with pytest.raises(DataError, match=f"{tmp_path}/file cannot be written: .*{cache.VARIABLE}"):
        downloaded(s3("p"))
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(DataError, match="x cannot be written: File too large"):
            downloaded(s3("p"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files(downloaded(s3("p"))) == {"x": bytes(20_000)}
