"""Data of buckets on hosts: downloads into the cache, parts, and streams for scripts."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from standins.object_stores import S3, Gcs
from standins.relay import Relay

from bootstrap.console import wait
from training.config import ConfigError
from training.data import DataError, cache, feeder, manifest, records, stream
from training.data.__main__ import main as data_command
from training.data.assignment import Span
from training.data.part import Part
from training.data.store import Folder, open_store

ROOT = Path(__file__).parents[2]
NUMBERS = itertools.count()
SCHEMA = manifest.Schema("float32", (1,), "int64")


def frame(data: bytes) -> bytes:
    """A TFRecord; the CRC of the data, which only TensorFlow checks, is left out."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", records.masked_crc(length)) + data + bytes(4)


def make_shards(folder: Path, shards: int = 3, count: int = 50, size: int = 100) -> list[bytes]:
    """Shards of so many records each, of different sizes; all records in order."""
    folder.mkdir(parents=True)
    every, found = [], []
    for number in range(shards):
        data = [f"{number}/{k}/".encode() + b"x" * (size * (1 + k % 3)) for k in range(count)]
        framed = [frame(one) for one in data]
        path = folder / f"shard-{number}.tfrecord"
        path.write_bytes(b"".join(framed))
        found.append(manifest.described(path.name, map(len, framed), manifest.sha256_of(path)))
        every += data
    manifest.write(Folder(folder), manifest.Manifest(SCHEMA, tuple(found)))
    return every


def records_of(content: bytes) -> list[bytes]:
    """The data of whole records."""
    found, position = [], 0
    while position < len(content):
        length = records.missing(content[position:])
        found.append(content[position + 12 : position + length - 4])
        position += length
    return found


@pytest.fixture(params=["s3", "gs"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """A function from a prefix to a URI in a new bucket."""
    found: S3 | Gcs = request.getfixturevalue("s3_store" if request.param == "s3" else "gcs_store")
    return bucket(found, monkeypatch)


@pytest.fixture
def s3(s3_store: S3, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    return bucket(s3_store, monkeypatch)


def bucket(found: S3 | Gcs, patch: pytest.MonkeyPatch) -> Callable[[str], str]:
    for name, value in found.environ.items():
        patch.setenv(name, value)
    name = f"data-{next(NUMBERS)}"
    found.make_bucket(name)
    return lambda prefix: found.uri(name, prefix)


def upload(folder: Path, uri: str) -> None:
    made = open_store(uri)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            made.put(path.relative_to(folder).as_posix(), path)


def downloaded(uri: str, part: str = "0/1") -> Path:
    made = open_store(uri)
    return cache.download_all(made, Part.parse(part).of(made.items()), lambda text: None)


def files(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


# --- mode file -----------------------------------------------------------------------------


def test_a_download_is_the_same_and_is_done_once(
    place: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a/deep").mkdir(parents=True)
    (tmp_path / "a/deep/large").write_bytes(os.urandom(2 * cache.RANGE + 5))
    (tmp_path / "a/empty").touch()
    upload(tmp_path / "a", place("p"))
    found = downloaded(place("p"))
    assert files(found) == files(tmp_path / "a")
    assert found.parent == Path.home() / ".railhead/data"
    monkeypatch.setattr(cache, "download", None)
    assert downloaded(place("p")) == found


def test_another_content_is_another_folder(s3: Callable[[str], str], tmp_path: Path) -> None:
    made = open_store(s3("p"))
    made.put("x", b"one")
    first = downloaded(s3("p"))
    made.put("x", b"two")
    assert files(downloaded(s3("p"))) == {"x": b"two"} and files(first) == {"x": b"one"}


def test_parts_are_disjoint_and_share_the_manifest(
    s3: Callable[[str], str], tmp_path: Path
) -> None:
    make_shards(tmp_path / "a")
    upload(tmp_path / "a", s3("p"))
    found = [set(files(downloaded(s3("p"), part))) for part in ("0/2", "1/2")]
    assert found[0] & found[1] == {manifest.NAME}
    assert sorted(found[0] ^ found[1]) == [f"shard-{number}.tfrecord" for number in range(3)]
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
    wanted = cache.wanted(made, made.items())
    with pytest.raises(DataError, match="the connection is gone"):
        cache.download(made, wanted, tmp_path / "b", print)
    assert sorted(files(tmp_path / "b"))[1:] == ["manifest.json", "shard-0.tfrecord"]
    ranges.clear()
    monkeypatch.setattr(made, "read_range", noted(read, ranges))
    cache.download(made, wanted, tmp_path / "b", print)
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
        wait_until(lambda: bool(texts))
        fcntl.flock(lock, fcntl.LOCK_UN)
        waiting.join(20)
    assert texts == ["waiting for the data that another process of this host downloads", "mine"]


def lock_once(folder: Path, report: cache.Report) -> None:
    with cache.locked(folder, report):
        report("mine")


def wait_until(check: Callable[[], Any]) -> None:
    assert wait.wait_until(check, seconds=60, every=0.02), "waited in vain"


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


@pytest.mark.parametrize("name", ["../x", "a//b", "/x", "a/../../x", ".part/x", "a/\0"])
def test_names_that_lead_out_of_the_folder_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be a file's"):
        cache.inside(tmp_path, name)


# --- mode stream ---------------------------------------------------------------------------


@pytest.mark.parametrize("indexed", [True, False])
def test_every_stretch_of_a_shard_is_read_whatever_the_sizes(tmp_path: Path, indexed: bool) -> None:
    every = make_shards(tmp_path / "a", shards=1, count=70)
    here = Folder(tmp_path / "a")
    (shard,) = manifest.load(here).shards
    assert len(shard.offsets) == 23 and shard.every == 3
    if not indexed:
        shard = manifest.Shard(shard.name, shard.records, shard.bytes, shard.sha256)
    found = manifest.Manifest(SCHEMA, (shard,))
    for first, count, size in itertools.product((0, 1, 33, 69), (1, 2, 37, 70), (50, 777, 1 << 20)):
        if first + count <= 70:
            span = Span(0, first, count, first)
            parts = list(stream.span_segments(here, found, span, size))
            read = [one for content, _ in parts for one in records_of(content)]
            assert read == every[first : first + count], (first, count, size)
            assert sum(taken for _, taken in parts) == count


def test_a_stretch_inside_a_shard_reads_little_of_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_shards(tmp_path / "a", shards=1, count=640)
    here = Folder(tmp_path / "a")
    found = manifest.load(here)
    ranges: list[Any] = []
    monkeypatch.setattr(here, "read_range", noted(here.read_range, ranges))
    list(stream.span_segments(here, found, Span(0, 401, 30, 401), 1 << 20))
    size = found.shards[0].bytes
    assert sum(end - start for _, start, end in ranges) < size / 640 * 80


def test_the_manifest_knows_wrong_offsets(tmp_path: Path) -> None:
    make_shards(tmp_path / "a")
    path = tmp_path / "a" / manifest.NAME
    document = json.loads(path.read_text())
    for offsets in ([5, 5], [1], [10**9]):
        document["shards"][1]["offsets"] = offsets
        path.write_text(json.dumps(document))
        with pytest.raises(DataError, match="damaged: offsets of shard shard-1"):
            manifest.load(Folder(tmp_path / "a"))
    for shard in document["shards"]:
        del shard["offsets"], shard["every"]
    path.write_text(json.dumps(document))
    assert manifest.load(Folder(tmp_path / "a")).shards[0].place(7) == (0, 7)


def test_a_stream_holds_a_bounded_number_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "SEGMENT", (500, 500))
    every = make_shards(tmp_path / "a")
    made = stream.Stream(Folder(tmp_path / "a"), manifest.load(Folder(tmp_path / "a")))
    spans = [Span(number, 0, 50, 50 * number) for number in (2, 0, 1)]
    folder, read, most = stream.folder_in_memory(), [], 0
    for path in made.files(spans, 1):
        read += records_of(Path(path).read_bytes())
        most = max(most, len(list(folder.glob(f"{os.getpid()}-*"))))
    assert read == every[100:] + every[:100]
    assert 2 <= most <= stream.FILES
    assert not list(folder.glob(f"{os.getpid()}-*"))


def test_a_reader_that_leaves_leaves_no_file_and_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "SEGMENT", (500, 500))
    make_shards(tmp_path / "a")
    made = stream.Stream(Folder(tmp_path / "a"), manifest.load(Folder(tmp_path / "a")))
    threads = threading.active_count()
    reading = made.files([Span(0, 0, 50, 0)], 1)
    next(reading)
    reading.close()  # type: ignore[attr-defined]
    assert threading.active_count() == threads
    assert not list(stream.folder_in_memory().glob(f"{os.getpid()}-*"))


def test_a_new_folder_is_not_taken_for_that_of_a_killed_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock

    def late(file: Any, how: int) -> None:
        if how == fcntl.LOCK_EX:  # other ranks start at the same moment, and look for such folders
            stream.remove_abandoned(tmp_path)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    folder = stream.make_folder(tmp_path)
    assert folder.is_dir()
    stream.remove_abandoned(tmp_path)
    assert folder.is_dir()


def test_the_folder_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from training.data import stream; "
    code += "print(stream.make_folder(Path(sys.argv[1])), flush=True); input()"
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdout
    folder = Path(other.stdout.readline().decode().strip())
    (folder / "file").write_bytes(b"x")
    stream.remove_abandoned(tmp_path)
    assert folder.exists(), "its process lives"
    other.kill()
    other.wait()
    stream.remove_abandoned(tmp_path)
    assert not folder.exists()
    other.stdin.close()  # type: ignore[union-attr]
    other.stdout.close()


# --- Streams for scripts -------------------------------------------------------------------


def read_epoch(folder: Path, look: Callable[[], None] = lambda: None) -> list[bytes]:
    """One epoch, as a script reads it."""
    found: list[bytes] = []
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
            return found
        found += records_of(content)


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
    upload(tmp_path / "a", place("p"))
    folder = feed(place("p"), "--epochs", "2")
    assert read_epoch(folder) == read_epoch(folder) == every
    with pytest.raises(OSError, match="has ended: 2 epochs"):
        read_epoch(folder)


def test_parts_of_a_stream_are_disjoint_and_shuffled_by_file(
    tmp_path: Path, feed: Callable[..., Path]
) -> None:
    every = make_shards(tmp_path / "a", shards=8, count=3)
    (tmp_path / "a/manifest.json").unlink()  # records of somebody else
    uri = str(tmp_path / "a")
    found = [read_epoch(feed(uri, "--part", f"{part}/2")) for part in (0, 1)]
    assert found[0] == [one for one in every if one[0] in b"0246"]
    assert sorted(found[0] + found[1]) == sorted(every)
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


def test_a_stream_goes_on_after_a_cut_connection(
    s3_store: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, feed: Callable[..., Path]
) -> None:
    place = bucket(s3_store, monkeypatch)
    every = make_shards(tmp_path / "a", size=20_000)
    upload(tmp_path / "a", place("p"))
    with Relay(s3_store.endpoint, cut_after=100_000, cuts=5) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", relay.endpoint)
        assert read_epoch(feed(place("p"))) == every
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
