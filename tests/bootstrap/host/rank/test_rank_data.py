"""Data of a script on two hosts with two ranks each: real ranks, a real S3 server."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hosts.ranks import command, lay_out, script, text_of
from places import ROOT
from standins.stores.object_stores import S3

from bootstrap.host.rank.rank_data import RankPlace, path_of, share_of
from railhead.documents.runs.run import RunData
from training.data.records import masked_crc

HOSTS = [{"name": "h1", "slots": 2}, {"name": "h2", "slots": 2}]

# Names of streams begin with s_: their files are read until the end of the epoch, and removed.
SCRIPT = """
import json, os, pathlib, time

def whole(folder):
    return {p.relative_to(folder).as_posix(): p.stat().st_size
            for p in sorted(folder.rglob("*")) if p.is_file()}

def stream(folder):
    records, name = [], ""
    while not name.endswith(".end"):
        name = min((n for n in os.listdir(folder) if n[0] != "."), default="")
        if not name:
            time.sleep(0.01)
            continue
        content = (folder / name).read_bytes()
        assert not name.endswith(".failed"), content
        records += [content[at + 12:at + 13].decode() for at in range(0, len(content), 17)]
        (folder / name).unlink()
    return records

found = {}
for variable, value in os.environ.items():
    name = variable.removeprefix("RAILHEAD_DATA_").lower()
    if name != variable.lower():
        folder = pathlib.Path(value)
        found[name] = [value, stream(folder) if name.startswith("s_") else whole(folder)]
print("FOUND", json.dumps(found))
"""


def record(letter: str) -> bytes:
    """A framed record of one byte; the CRC of the data, which only TensorFlow checks, is 0."""
    length = struct.pack("<Q", 1)
    return length + struct.pack("<I", masked_crc(length)) + letter.encode() + bytes(4)


def data(name: str, uri: str, how: str, mode: str, paths: list[Path] | None = None) -> Any:
    """An entry of `data` in run.json."""
    places = [str(path) for path in paths] if paths else None
    return {"name": name, "uri": uri, "distribution": how, "mode": mode, "paths": places}


def run_ranks(
    folder: Path, inputs: list[Any], environ: dict[str, str], **changes: Any
) -> list[list[str]]:
    """The lines of four ranks that run at once, each host in its own home."""
    started = []
    for number, host in enumerate(("h1", "h1", "h2", "h2")):
        place = folder / host / "run"
        if not place.exists():
            place.mkdir(parents=True)
            lay_out(place, script(place, SCRIPT), hosts=HOSTS, size=4, data=inputs, **changes)
            (place / "reader").mkdir()
            (place / "reader/training").symlink_to(ROOT / "training")
        world = {"OMPI_COMM_WORLD_RANK": str(number), "OMPI_COMM_WORLD_LOCAL_RANK": str(number % 2)}
        around = {"PATH": os.environ["PATH"], "HOME": str(folder / host), **world, **environ}
        argv = command(place)
        started.append(
            subprocess.Popen(argv, cwd=place / "work", env=around, stdout=-1, stderr=-2, text=True)
        )
    outputs = [process.communicate(timeout=240)[0] for process in started]
    for link in folder.glob("*/run/streams/*"):  # in memory; the end of a run removes them
        shutil.rmtree(link.resolve())
    assert [process.returncode for process in started] == [0] * 4, outputs
    return [text_of(text).splitlines() for text in outputs]


def found_in(lines: list[str]) -> Any:
    """What the script of a rank found: {name: [folder, files or records]}."""
    return json.loads(next(line for line in lines if line.startswith("FOUND "))[6:])


@pytest.fixture(scope="module")
def store(s3_store: S3) -> S3:
    """A bucket with five files, and with shards of one record each: a, b, c, d, e."""
    s3_store.make_bucket("ranks")
    for number, letter in enumerate("abcde"):
        s3_store.put("ranks", f"files/{letter}", bytes(4_000_000 + number))
        s3_store.put("ranks", f"records/{letter}.tfrecord", record(letter))
    return s3_store


def test_the_ranks_of_a_host_download_once_and_share_its_files(store: S3, tmp_path: Path) -> None:
    uri = "s3://ranks/files"
    inputs = [data("all", uri, "replicate", "file"), data("part", uri, "shard", "file")]
    lines = run_ranks(tmp_path, inputs, store.environ)
    seen = [found_in(text) for text in lines]
    assert [sorted(rank["all"][1]) for rank in seen] == [list("abcde")] * 4
    assert [sorted(rank["part"][1]) for rank in seen] == [list("ace")] * 2 + [list("bd")] * 2
    for host, ranks in (("h1", (0, 1)), ("h2", (2, 3))):
        text = "\n".join(line for rank in ranks for line in lines[rank])
        assert text.count("MB/s") == 2, "each of the two was downloaded once"
        for name in ("all", "part"):
            (folder,) = {seen[rank][name][0] for rank in ranks}
            assert Path(folder).is_relative_to(tmp_path / host / ".railhead/data")


def sharded_streams(folder: Path) -> list[Any]:
    """Shares of a bucket, and of local data: the control machine sent each host its own files."""
    sent = [folder / "sent-0", folder / "sent-1"]
    for place, letters in zip(sent, ("ace", "bd"), strict=True):
        place.mkdir()
        for letter in letters:
            (place / f"{letter}.tfrecord").write_bytes(record(letter))
    return [
        data("s_part", "s3://ranks/records", "shard", "stream"),
        data("s_sent", "here", "shard", "stream", sent),
    ]


def test_each_rank_has_a_stream_of_its_own(store: S3, tmp_path: Path) -> None:
    whole = data("s_all", "s3://ranks/records", "replicate", "stream")
    inputs = [whole, *sharded_streams(tmp_path)]
    seen = [found_in(text) for text in run_ranks(tmp_path, inputs, store.environ)]
    assert ["".join(rank["s_all"][1]) for rank in seen] == ["abcde"] * 4
    assert ["".join(rank["s_part"][1]) for rank in seen] == ["ae", "b", "c", "d"]
    assert ["".join(rank["s_sent"][1]) for rank in seen] == ["ae", "c", "b", "d"]
    folders = {value[0] for inputs_seen in seen for value in inputs_seen.values()}
    assert len(folders) == 12


def test_workers_alone_share_the_streams(store: S3, tmp_path: Path) -> None:
    roles = [{"type": role, "index": 0} for role in ("chief", "worker", "ps", "worker")]
    inputs = sharded_streams(tmp_path)
    seen = [found_in(text) for text in run_ranks(tmp_path, inputs, store.environ, roles=roles)]
    for name in ("s_part", "s_sent"):
        assert ["".join(seen[rank][name][1]) for rank in (1, 3)] == ["ace", "bd"]


def test_a_script_does_not_begin_without_its_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The download has printed why; what it printed besides is not a folder."""
    package = tmp_path / "reader/training/data"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    program = package / "__main__.py"
    program.write_text("print('@railhead {}'); print('/half'); raise SystemExit(3)")
    place = RankPlace(str(tmp_path), (0, 1), (0, 1), (0, 1))
    with pytest.raises(SystemExit) as ended:
        path_of(RunData("train", "s3://bucket/x", "replicate", "file", None), place)
    assert ended.value.code == 3 and capsys.readouterr().out == "@railhead {}\n"


def test_data_that_is_on_all_hosts_is_divided_and_what_was_sent_is_not(tmp_path: Path) -> None:
    """A host was sent its own share of local data."""
    (tmp_path / "there").mkdir()
    for name in "abc":
        (tmp_path / "there" / name).touch()
    paths = (str(tmp_path / "there"),) * 2
    files_of: dict[str, list[str]] = {}
    for uri in ("host:~/there", "~/here"):
        for how in ("shard", "replicate"):
            place = RankPlace(str(tmp_path / f"run-{len(files_of)}"), (1, 4), (1, 2), (1, 2))
            folder = path_of(RunData("train", uri, how, "file", paths), place)
            files_of[f"{uri} {how}"] = sorted(path.name for path in Path(folder).iterdir())
    assert files_of == {
        "host:~/there shard": ["b"],
        "host:~/there replicate": ["a", "b", "c"],
        "~/here shard": ["a", "b", "c"],
        "~/here replicate": ["a", "b", "c"],
    }


def test_a_host_without_a_file_of_the_folder_is_refused(tmp_path: Path) -> None:
    """Its ranks would train on nothing."""
    (tmp_path / "all").mkdir()
    for name in ("a", "b", "manifest.json"):
        (tmp_path / "all" / name).touch()
    shares = [share_of(str(tmp_path / "all"), str(tmp_path / f"{i}"), i, 2) for i in (0, 1)]
    assert [sorted(path.name for path in Path(share).iterdir()) for share in shares] == [
        ["a", "manifest.json"],
        ["b", "manifest.json"],
    ]
    for path, index, count in ((tmp_path / "all", 2, 3), (tmp_path / "all/a", 0, 2)):
        with pytest.raises(SystemExit, match=f"has no file for host {index + 1} of {count}"):
            share_of(str(path), str(tmp_path / "none"), index, count)
