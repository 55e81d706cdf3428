"""The manifest of shards: columns, the older JSON, and what is wrong in either."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from samples.shards import SCHEMA, make_shards

from railhead.documents.names import MANIFEST, is_manifest
from training.data import DataError
from training.data.shards import manifest
from training.data.shards.columns import Pattern, Shard, Table
from training.data.shards.manifest import Manifest
from training.data.store import Folder


def shards_of(*names: str) -> tuple[Shard, ...]:
    """Files of different sizes; every second one with offsets."""
    return tuple(
        Shard(name, 10 + k, 10_000 + k, hashlib.sha256(name.encode()).hexdigest())
        if k % 2
        else Shard(name, 10 + k, 10_000 + k, "ab" * 32, 7, (400 + k, 900)[: (9 + k) // 7])
        for k, name in enumerate(names)
    )


def version_1(manifest_: Manifest) -> bytes:
    """As it was written before."""
    document = {
        "format": "railhead-shards",
        "version": 1,
        "records": manifest_.records,
        "schema": asdict(manifest_.schema),
        "shards": [{**vars(shard), "offsets": list(shard.offsets)} for shard in manifest_.shards],
    }
    return json.dumps(document).encode()


COUNTED = tuple(f"part-{k:05d}-of-00012" for k in range(12))
NAMES = [COUNTED, ("b/x.tfrecord", "a 1.tfrecord", "ä-0.tfrecord"), ("0.tfrecord",), ()]


@pytest.mark.parametrize("names", NAMES)
def test_a_manifest_comes_back_as_it_was(tmp_path: Path, names: tuple[str, ...]) -> None:
    shards = shards_of(*names)
    manifest.write(Folder(tmp_path), Manifest(SCHEMA, shards))
    loaded = manifest.load(Folder(tmp_path))
    assert loaded.schema == SCHEMA and isinstance(loaded.shards, Table)
    for shard, expected in zip(loaded.shards, shards, strict=True):
        assert (shard.name, shard.records, shard.bytes, shard.sha256) == (
            expected.name, expected.records, expected.bytes, expected.sha256
        )  # fmt: skip
        assert list(shard.offsets) == list(expected.offsets)
        for record in range(shard.records + 1):
            assert (shard.place(record), shard.end(record)) == (
                expected.place(record),
                expected.end(record),
            )
    assert list(loaded.names) == list(names) and loaded.records == sum(s.records for s in shards)
    manifest.write(Folder(tmp_path / "copy"), loaded)
    for path in tmp_path.glob("manifest*"):
        assert (tmp_path / "copy" / path.name).read_bytes() == path.read_bytes()


def test_an_older_manifest_is_read_as_before(tmp_path: Path) -> None:
    make_shards(tmp_path / "a")
    new = manifest.load(Folder(tmp_path / "a"))
    (tmp_path / "a" / MANIFEST).write_bytes(version_1(Manifest(new.schema, shards_of(*COUNTED))))
    old = manifest.load(Folder(tmp_path / "a"))
    assert old == Manifest(new.schema, shards_of(*COUNTED))
    assert (old.counts, old.sizes) == ([10 + k for k in range(12)], [10_000 + k for k in range(12)])


HASHES = ("zz", "abcd", None, 5, "AB" * 32, "ab" * 32 + "\n")


def test_an_older_manifest_knows_what_is_wrong_in_a_shard(tmp_path: Path) -> None:
    shards = shards_of(*COUNTED)
    whole = json.loads(version_1(Manifest(SCHEMA, shards)))
    here = Folder(tmp_path)
    changes: list[tuple[str, Any, str]] = [
        ("offsets", [5, 5], "offsets of shard part-00002"),
        ("offsets", [5, 6], "offsets of shard part-00002"),
        ("offsets", [10**9], "offsets of shard part-00002"),
        ("name", "../x", "name of a shard '../x'"),
        ("name", "/x", "name of a shard '/x'"),
        ("bytes", -1, "sizes of shard part-00002"),
        *((key, 10.0, "sizes of shard part-00002") for key in ("records", "bytes", "every")),
        *(("records", value, "sizes of shard part-00002") for value in (None, "9", True, 2**63)),
        ("offsets", [5.0], "sizes of shard part-00002"),
        ("name", 5, "name of a shard 5"),
        *(("sha256", value, "sha256 of shard part-00002") for value in HASHES),
    ]
    for key, value, fault in changes:
        document = json.loads(json.dumps(whole))
        document["shards"][2][key] = value
        if key == "records":  # the sum is that of the shards
            document["records"] += value - 12 if isinstance(value, (int, float)) else 0
        with pytest.raises(DataError, match=f"is damaged: {fault}"):
            manifest.parse(json.dumps(document).encode(), here)
    for shard in whole["shards"]:
        del shard["offsets"], shard["every"]
        shard["sha256"] = ""
    loaded = manifest.parse(json.dumps(whole).encode(), here)
    assert loaded.shards[0].place(7) == (0, 7)


def broken(change: Callable[[dict[str, Any]], Any], folder: Path) -> str:
    """The message about a manifest whose head was changed."""
    manifest.write(Folder(folder), Manifest(SCHEMA, shards_of("b", "a", "c")))
    document = json.loads((folder / MANIFEST).read_text())
    change(document)
    (folder / MANIFEST).write_text(json.dumps(document))
    with pytest.raises(DataError) as caught:
        list(manifest.verify(Folder(folder)).shards)
    return str(caught.value)


def test_a_head_that_is_wrong_is_named(tmp_path: Path) -> None:
    def columns(name: str, **values: Any) -> Callable[[dict[str, Any]], Any]:
        return lambda document: document["columns"][name].update(values)

    cases: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
        (lambda d: d.update(records=1), "the records of the shards do not add up"),
        (lambda d: d.update(shards=2), "column records has 3 items, not 2"),
        (lambda d: d.update(shards=-1), "column records has 3 items, not -1"),
        (lambda d: d.update(file="../secret"), "'../secret' is not the name of a file of columns"),
        (lambda d: d.update(file=["x"]), "is damaged"),
        (lambda d: d.pop("columns"), "is damaged: 'columns'"),
        (lambda d: d["columns"].pop("bytes"), "is damaged: 'bytes'"),
        (columns("records", sha256="0"), "column records has another sha256"),
        (columns("bytes", bytes=23), "is damaged"),
        (columns("bytes", bytes=10**12), "ends after"),
        (columns("records", at=-8), "Invalid argument"),
    ]
    whole: dict[str, Any] = {"before": "a", "digits": 5, "after": ""}
    for key, value in [
        *(("digits", value) for value in ("x", "5", None, True, 5.0, -1, 0, 21, 10**9, 10**20)),
        ("before", 1), ("after", None), ("more", 1),
    ]:  # fmt: skip
        names = {**whole, key: value}
        cases.append((partial(dict.update, names=names), "is damaged: "))
    for number, (change, fault) in enumerate(cases):
        assert fault in broken(change, tmp_path / str(number)), fault


def test_columns_that_are_wrong_are_named_when_they_are_read(tmp_path: Path) -> None:
    shards = shards_of("b", "a", "c")
    faults = [
        (0, "column records"),
        (30, "column bytes"),
        (50, "column sha256"),
        (-1, "column names"),
    ]
    for position, fault in faults:
        manifest.write(Folder(tmp_path), Manifest(SCHEMA, shards))
        (path,) = tmp_path.glob("*.columns")
        content = bytearray(path.read_bytes())
        content[position] ^= 1
        path.write_bytes(content)
        with pytest.raises(DataError, match=f"damaged: {fault} has another sha256"):
            list(manifest.load(Folder(tmp_path)).shards)
        path.unlink()
    with pytest.raises(DataError, match="No such file"):
        manifest.load(Folder(tmp_path))


def test_each_wrong_bit_of_an_offset_is_found(tmp_path: Path) -> None:
    """Mode `file` begins to read there. The shards are as they should be."""
    folder = tmp_path / "a"
    make_shards(folder, shards=2, count=4, size=9)
    here, head = Folder(folder), json.loads((folder / MANIFEST).read_text())
    assert manifest.verify(here).records == 8
    path, place = folder / head["file"], head["columns"]["offsets"]
    whole = path.read_bytes()
    assert place["bytes"] == 2 * 3 * 8
    for bit in range(8 * place["bytes"]):
        content = bytearray(whole)
        content[place["at"] + bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        name = f"shard-{bit // (3 * 64)}.tfrecord"
        with pytest.raises(DataError, match=f"{MANIFEST} is damaged: offsets of shard {name}"):
            manifest.verify(Folder(folder))


def test_a_shard_that_has_grown_is_found(tmp_path: Path) -> None:
    """Its first bytes are those of the manifest."""
    folder = tmp_path / "a"
    make_shards(folder, shards=2)
    shard = sorted(folder.glob("*.tfrecord"))[1]
    size = shard.stat().st_size
    shard.write_bytes(shard.read_bytes() + b"x")
    with pytest.raises(DataError, match=f"{shard} has {size + 1} bytes, the manifest says {size}"):
        manifest.verify(Folder(folder))


def test_offsets_of_an_older_manifest_are_verified(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    make_shards(folder)
    (folder / MANIFEST).write_bytes(version_1(manifest.load(Folder(folder))))
    document = json.loads((folder / MANIFEST).read_text())
    assert manifest.verify(Folder(folder)).records == 150
    document["shards"][1]["offsets"][3] += 1
    (folder / MANIFEST).write_text(json.dumps(document))
    with pytest.raises(DataError, match="is damaged: offsets of shard shard-1"):
        manifest.verify(Folder(folder))


def test_of_two_writers_one_manifest_is_whole(tmp_path: Path) -> None:
    """Each step of one between those of the other: a reader finds a whole one after each."""
    manifest_ = Manifest(SCHEMA, shards_of("a", "b"))
    other = Manifest(SCHEMA, shards_of("c", "d", "e"))
    here = Folder(tmp_path)

    class Between(Folder):
        def put(self, name: str, content: Path | bytes) -> None:
            manifest.write(here, other)
            super().put(name, content)
            assert list(manifest.load(here).names) in (["a", "b"], ["c", "d", "e"])

    manifest.write(Between(tmp_path), manifest_)
    assert list(manifest.load(here).names) == ["a", "b"]
    manifest.write(here, other)
    assert list(manifest.load(here).names) == ["c", "d", "e"]


def test_more_offsets_than_a_number_can_count_are_a_damaged_manifest(tmp_path: Path) -> None:
    """Each sum of a column has a limit, and a writer may write anything."""
    shards = [Shard(name, 2**64 - 2, 9, "ab" * 32, 1, (1,)) for name in "ab"]
    manifest.write(Folder(tmp_path), Manifest(SCHEMA, shards))
    with pytest.raises(DataError, match="is damaged"):
        manifest.load(Folder(tmp_path)).shards[0].place(1)


def test_names_that_count_need_no_column() -> None:
    assert Pattern.of([f"x/p-{k:03d}.gz" for k in range(12)]) == Pattern("x/p-", 3, ".gz")
    assert Pattern.of(["a-1", "a-2"]) is Pattern.of(["a-0", "a-2"]) is None
    assert Pattern.of(["2000-0", "2000-1"]) == Pattern("2000-", 1, "")
    assert Pattern.of(["0" * 20]) == Pattern("", 20, "") and Pattern.of(["0" * 21]) is None


def test_the_manifest_s_files_are_known_by_their_names(tmp_path: Path) -> None:
    make_shards(tmp_path / "a")
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert [name for name in names if is_manifest(name)] == names[:2]
    assert not is_manifest("manifest-1.columns") and not is_manifest("x/manifest.json")


READ = """
import sys
from training.data.shards import manifest
from training.data.store import Folder
found = manifest.load(Folder(__import__("pathlib").Path(sys.argv[1])))
assert found.records == 1_000_000 and sum(found.sizes) and found.shards[7].name.endswith("7-of-x")
print(int(next(line for line in open("/proc/self/status") if "VmHWM" in line).split()[1]) // 1024)
"""


def test_a_manifest_of_a_hundred_thousand_shards_needs_few_bytes(tmp_path: Path) -> None:
    """Of names, digests and offsets a reader has only what it asks for."""
    shards = (Shard(f"{k:06d}-of-x", 10, 1000, "ab" * 32) for k in range(100_000))
    manifest.write(Folder(tmp_path), Manifest(SCHEMA, tuple(shards)))
    assert (tmp_path / MANIFEST).stat().st_size < 3000
    (path,) = tmp_path.glob("*.columns")
    assert path.stat().st_size == 100_000 * (8 + 8 + 32 + 4)
    command = [sys.executable, "-S", "-c", READ, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    assert int(done.stdout) < 45, "MB; as JSON it took 130"
