"""Streams for scripts: a folder of small files that the script reads and removes."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from samples.shards import frame, make_shards, records_of, upload
from standins.relay import Relay
from standins.stores.object_stores import S3

from bootstrap.console import wait
from training.data import DataError, feeder
from training.data.part import Part
from training.data.store import Folder


def wait_until(check: Callable[[], Any]) -> None:
    assert wait.wait_until(check, seconds=60, every=0.02), "waited in vain"


def read_epoch(folder: Path, look: Callable[[], None] = lambda: None) -> list[bytes]:
    """One epoch, as a script reads it."""
    seen: list[bytes] = []
    while True:
        look()
        names = sorted(path for path in folder.iterdir() if path.name[0] != ".")
        if not names:
            time.sleep(0.005)
            continue
        content = names[0].read_bytes()
        if names[0].suffix == ".failed":
            raise OSError(content.decode())
        names[0].unlink()
        if names[0].suffix == ".end":
            return seen
        seen += records_of(content)


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Start `python -m training.data stream` into a new folder."""
    started: list[subprocess.Popen[bytes]] = []

    def start(uri: str, *options: str) -> Path:
        folder = tmp_path / f"stream-{len(started)}"
        command = [sys.executable, "-m", "training.data", "stream", uri, str(folder), *options]
        started.append(subprocess.Popen(command, cwd=ROOT))
        wait_until(folder.exists)
        return folder

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_script_reads_all_records_epoch_by_epoch(
    place: Callable[[str], str], tmp_path: Path, feed: Callable[..., Path]
) -> None:
    every = make_shards(tmp_path / "a")
    (tmp_path / "a/README.md").write_text("not a shard")
    upload(tmp_path / "a", place("p"))
    folder = feed(place("p"), "--epochs", "2")
    assert read_epoch(folder) == read_epoch(folder) == every
    with pytest.raises(OSError, match="has ended: 2 epochs"):
        read_epoch(folder)


def test_a_file_of_a_stream_appears_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader takes the first name as soon as it is there."""
    stream = feeder.Feeder(Folder(tmp_path), tmp_path, Part.parse("0/1"))
    renamed: list[tuple[bytes, bool]] = []
    replace = Path.replace

    def watched(self: Path, target: Path) -> Path:
        renamed.append((self.read_bytes(), target.exists()))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    stream.put("tfrecord", b"records")
    assert renamed == [(b"records", False)]
    assert [path.name for path in tmp_path.iterdir()] == ["00000000.tfrecord"]


def test_parts_of_a_stream_are_disjoint_and_shuffled_by_file(
    tmp_path: Path, feed: Callable[..., Path]
) -> None:
    every = make_shards(tmp_path / "a", shards=8, count=3)
    (tmp_path / "a/manifest.json").unlink()  # records of somebody else
    uri = str(tmp_path / "a")
    halves = [read_epoch(feed(uri, "--part", f"{part}/2")) for part in (0, 1)]
    assert halves[0] == [record for record in every if record[0] in b"0246"]
    assert sorted(halves[0] + halves[1]) == sorted(every)
    folder = feed(uri, "--shuffle", "1")
    shuffled = [read_epoch(folder) for _ in range(2)]
    assert shuffled[0] != shuffled[1] and sorted(shuffled[0]) == sorted(shuffled[1]) == sorted(
        every
    )


def test_a_stream_waits_for_its_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeder, "SEGMENT", 500)
    monkeypatch.setattr(feeder, "FILES", 3)
    every = make_shards(tmp_path / "a")
    made = feeder.Feeder(Folder(tmp_path / "a"), tmp_path / "b", Part())
    thread = threading.Thread(target=made.run, args=(1,))
    thread.start()
    wait_until(lambda: (tmp_path / "b").exists() and made.waiting() == 3)
    assert thread.is_alive()
    most = 0

    def look() -> None:
        nonlocal most
        # A folder is not listed in one moment: a file that goes and one that comes can both count.
        most = max(most, min(made.waiting() for _ in range(5)))

    assert read_epoch(tmp_path / "b", look) == every
    assert most <= 5, "three files, and the two small ones that end the epoch and the stream"
    thread.join(20)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a line of text\n" * 100, "is not a TFRecord file, or is compressed"),
        (frame(b"whole") + frame(b"cut")[:-1], "ends inside a record"),
        (frame(b"x") * 49, "has .* bytes, the manifest says"),
        (b"", "has no records to stream"),
    ],
)
def test_a_stream_that_fails_says_why_to_its_reader(
    tmp_path: Path, feed: Callable[..., Path], content: bytes, message: str
) -> None:
    make_shards(tmp_path / "a", shards=1)
    if "manifest" not in message:
        (tmp_path / "a/manifest.json").unlink()
    (tmp_path / "a/shard-0.tfrecord").write_bytes(content)
    with pytest.raises(OSError, match=message):
        read_epoch(feed(str(tmp_path / "a")))


def test_a_stream_without_space_says_so_to_its_reader(tmp_path: Path) -> None:
    """As where /dev/shm is full: no file of this process may become larger."""
    make_shards(tmp_path / "a", size=20_000)
    made = feeder.Feeder(Folder(tmp_path / "a"), tmp_path / "b", Part())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(DataError, match="File too large"):
            made.run(1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    (last,) = (tmp_path / "b").iterdir()
    assert last.suffix == ".failed" and str(tmp_path / "b") in last.read_text()


def test_a_stream_goes_on_after_a_cut_connection(
    s3_store: S3,
    s3: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    feed: Callable[..., Path],
) -> None:
    every = make_shards(tmp_path / "a", size=20_000)
    upload(tmp_path / "a", s3("p"))
    with Relay(s3_store.endpoint, cut_after=100_000, cuts=5) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", relay.endpoint)
        assert read_epoch(feed(s3("p"))) == every
        assert relay.was_cut == 5


def test_a_stream_ends_when_nobody_is_left_to_read(tmp_path: Path) -> None:
    make_shards(tmp_path / "a")
    feeding = f"{sys.executable} -m training.data stream {tmp_path / 'a'} {tmp_path / 'b'}"
    command = ["sh", "-c", f"{feeding} >/dev/null 2>&1 & echo $!; read line"]
    shell = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert shell.stdout and shell.stdin
    process = Path("/proc", shell.stdout.readline().decode().strip())
    wait_until((tmp_path / "b/00000000.tfrecord").exists)
    assert process.exists()
    shell.communicate(b"done\n", timeout=60)
    wait_until(lambda: not process.exists() or "Z" in (process / "stat").read_text().split()[2])
