"""Mode `stream`: records of shards in small files in memory, while they are downloaded."""

from __future__ import annotations

import fcntl
import itertools
import os
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from places import ROOT
from samples.shards import SCHEMA, make_shards, records_of

from training.data import DataError
from training.data.assignment import Span
from training.data.shards import columns, manifest, stream
from training.data.store import Folder


def noted(read: Callable[..., Any], ranges: list[Any]) -> Callable[..., Any]:
    def read_range(*arguments: Any) -> Any:
        ranges.append(arguments)
        return read(*arguments)

    return read_range


@pytest.mark.parametrize("indexed", [True, False])
def test_every_stretch_of_a_shard_is_read_whatever_the_sizes(tmp_path: Path, indexed: bool) -> None:
    every = make_shards(tmp_path / "a", shards=1, count=70)
    here = Folder(tmp_path / "a")
    (shard,) = manifest.load(here).shards
    assert len(shard.offsets) == 23 and shard.every == 3
    if not indexed:
        shard = columns.Shard(shard.name, shard.records, shard.bytes, shard.sha256)
    manifest_ = manifest.Manifest(SCHEMA, (shard,))
    for first, count, size in itertools.product((0, 1, 33, 69), (1, 2, 37, 70), (50, 777, 1 << 20)):
        if first + count <= 70:
            span = Span(0, first, count, first)
            parts = list(stream.span_segments(here, manifest_, span, size))
            read = [record for content, _ in parts for record in records_of(content)]
            assert read == every[first : first + count], (first, count, size)
            assert sum(taken for _, taken in parts) == count


def test_a_stretch_inside_a_shard_reads_little_of_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_shards(tmp_path / "a", shards=1, count=640)
    here = Folder(tmp_path / "a")
    loaded = manifest.load(here)
    ranges: list[Any] = []
    monkeypatch.setattr(here, "read_range", noted(here.read_range, ranges))
    list(stream.span_segments(here, loaded, Span(0, 401, 30, 401), 1 << 20))
    size = loaded.shards[0].bytes
    assert sum(end - start for _, start, end in ranges) < size / 640 * 80


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


def test_a_stream_without_space_names_its_folder(tmp_path: Path) -> None:
    """Otherwise all data would be read again, to find what is wrong in it."""
    make_shards(tmp_path / "a", size=20_000)
    made = stream.Stream(Folder(tmp_path / "a"), manifest.load(Folder(tmp_path / "a")))
    folder = stream.folder_in_memory()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(DataError, match="File too large"):
            list(made.files([Span(0, 0, 50, 0)], 1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(folder) in made.fault
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


def test_tracks_that_are_read_at_once_have_their_own_files(tmp_path: Path) -> None:
    every = make_shards(tmp_path / "a")
    made = stream.Stream(Folder(tmp_path / "a"), manifest.load(Folder(tmp_path / "a")))
    tracks = [made.files([Span(number, 0, 50, 50 * number)], 3) for number in range(3)]
    paths = [next(track) for track in tracks]
    found = [record for path in paths for record in records_of(Path(path).read_bytes())]
    assert len({*paths}) == 3 and found == every
    assert [[*track] for track in tracks] == [[]] * 3


@pytest.mark.parametrize(
    ("free", "in_memory"), [(3 * stream.BUDGET, True), (3 * stream.BUDGET - 1, False)]
)
def test_files_are_in_memory_where_it_holds_those_of_three_splits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, in_memory: bool
) -> None:
    monkeypatch.setattr(stream, "MEMORY", tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert (stream.place() == tmp_path) == in_memory


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
    code = "import sys; from pathlib import Path; from training.data.shards import stream; "
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
