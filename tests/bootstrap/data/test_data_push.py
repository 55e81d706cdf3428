"""`fab data push` and `fab data list`: parallel, resumable, verified by the cloud."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from standins import ctrl_c
from standins.stores.buckets import OnGcs, OnS3, World

from bootstrap.clouds import bucket
from bootstrap.clouds.aws.s3 import S3
from bootstrap.clouds.storage import Store
from bootstrap.data.folders import hashed, listed
from bootstrap.data.send import Missing
from bootstrap.data.through_bucket import MIN_BYTES, upload_missing
from bootstrap.data.upload import upload, upload_to_stack
from bootstrap.errors import RailheadError, UsageError
from bootstrap.host.buckets import s3 as s3_module
from bootstrap.host.buckets.objects import ChangedFile
from bootstrap.workflows import data as workflow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {"a.bin": 3, "sub/b c.bin": 200_000, "sub/empty": 0}
    for name, size in files.items():
        (tmp_path / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / name).write_bytes(os.urandom(size))
    return tmp_path / "mine"


def uri_of(world: World, prefix: str) -> str:
    return f"{world.inventory.bucket}/{prefix}"


def store_of(world: World) -> Store:
    return bucket.bucket_of(world.inventory).store


def read(world: World, key: str) -> bytes:
    return b"".join(store_of(world).read(key))


def test_a_folder_is_uploaded_once(
    world: World, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workflow.push(folder, uri_of(world, "set/one"), None)
    assert "3 uploaded, 0 were there already" in capsys.readouterr().out
    assert world.names() == ["set/one/a.bin", "set/one/sub/b c.bin", "set/one/sub/empty"]
    for name in ("a.bin", "sub/b c.bin", "sub/empty"):
        content = (folder / name).read_bytes()
        assert read(world, f"set/one/{name}") == content
        assert store_of(world).sha256(f"set/one/{name}") == hashlib.sha256(content).hexdigest()
    (folder / "a.bin").write_bytes(b"new")
    workflow.push(folder, uri_of(world, "set/one/"), None)
    out = capsys.readouterr().out
    assert "1 uploaded, 2 were there already" in out
    assert f"fab train --data train={uri_of(world, 'set/one/')}" in out
    assert read(world, "set/one/a.bin") == b"new"


def test_an_object_with_another_content_is_replaced(world: World, folder: Path) -> None:
    workflow.push(folder, uri_of(world, "x"), None)
    world.put("x/a.bin", b"abc")  # of the same size, without a hash
    workflow.push(folder, uri_of(world, "x"), None)
    assert read(world, "x/a.bin") == (folder / "a.bin").read_bytes()


def test_the_bucket_of_the_stack_gets_data_by_its_digest(
    world: World, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workflow.push(folder, "bucket", world.inventory)
    uri = capsys.readouterr().out.split(": 3 files")[0].splitlines()[-1]
    assert uri.startswith(f"{world.inventory.bucket}/data/")
    workflow.list_stack(world.inventory)
    assert f"{uri}  3 files, 200 kB, from mine" in capsys.readouterr().out
    workflow.list_objects(uri)
    listed = capsys.readouterr().out
    assert "200 kB  sub/b c.bin" in listed and "3 objects, 200 kB" in listed


def test_only_what_hosts_lack_goes_through_the_bucket(world: World, folder: Path) -> None:
    """The second host lacks nothing, and the first one has one of two."""
    both = {name: hashed(listed(folder / name, "x"), lambda _: None) for name in ("a.bin", "sub")}
    lacks = {"h1": Missing(("sub",), MIN_BYTES, 0), "h2": Missing((), 0, 0)}
    environment = SimpleNamespace(interpreter="python")
    cluster: Any = SimpleNamespace(inventory=world.inventory, environment=environment)
    downloads = upload_missing({"h1": both, "h2": both}, lacks, cluster)
    digest = both["sub"].digest
    assert {*downloads.uris} == {digest}
    assert downloads.variables == {"AWS_REGION": world.inventory.region}
    assert all(name.startswith(f"data/{digest}") for name in world.names())


def test_data_that_did_not_arrive_is_not_marked_as_complete(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts read what the entry names."""
    data, store = hashed(listed(folder, "x"), lambda _: None), store_of(world)
    send = type(store).upload

    def breaks(self: Any, key: str, *values: Any, **named: Any) -> None:
        if key.endswith("b c.bin"):
            raise RailheadError("the connection broke")
        send(self, key, *values, **named)

    monkeypatch.setattr(type(store), "upload", breaks)
    with pytest.raises(RailheadError):
        upload_to_stack(data, store)
    assert f"data/{data.digest}.json" not in world.names()
    monkeypatch.setattr(type(store), "upload", send)
    upload_to_stack(data, store)
    assert f"data/{data.digest}.json" in world.names()


DAMAGED = {
    "not JSON": b"{",
    "another document": b"[1]",
    "too deep": b"[" * 4000,
    "too large": b'{"files": 1, "bytes": 2, "from": "' + b"x" * 5000 + b'"}',
    "numbers that are none": b'{"files": "many", "bytes": [2], "from": "x"}',
    "nothing": b"{}",
}


@pytest.mark.parametrize("entry", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_entry_is_named_and_the_others_are_listed(
    on_gcs: OnGcs, capsys: pytest.CaptureFixture[str], entry: bytes
) -> None:
    on_gcs.put("data/a1.json", entry)
    on_gcs.put("data/b2.json", b'{"files": 3, "bytes": 4, "from": "f\\u001b[2J"}')
    workflow.list_stack(on_gcs.inventory)
    assert capsys.readouterr().out.splitlines() == [
        "gs://results-b/data/a1/  damaged: data/a1.json does not describe data",
        "gs://results-b/data/b2/  3 files, 4 B, from f",
    ]


def test_a_stack_without_data_names_the_next_command(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    workflow.list_stack(replace(world.inventory, stack="gpu"))
    assert "fab data push FOLDER bucket --stack gpu\n" in capsys.readouterr().out


def test_a_large_object_goes_in_parts(
    on_s3: OnS3, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_module, "PART", 5 << 20)  # the least that S3 takes
    (folder / "large").write_bytes(os.urandom((11 << 20) + 5))
    workflow.push(folder, uri_of(on_s3, "p"), None)
    assert read(on_s3, "p/large") == (folder / "large").read_bytes()


def test_ctrl_c_ends_an_upload_and_leaves_no_parts(
    on_s3: OnS3, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_module, "PART", 100_000)
    store = store_of(on_s3)
    assert isinstance(store, S3)

    def call(service: str, operation: str, **parameters: Any) -> Any:
        """A bucket whose network hangs after the first part of the file."""
        answer = store.client(service, operation, **parameters)
        if operation == "upload_part":
            ctrl_c.press()
            while True:
                time.sleep(0.01)
        return answer

    with pytest.raises(KeyboardInterrupt):
        upload(hashed(listed(folder, ""), lambda _: None), replace(store, client=call), "")
    assert "sub/b c.bin" not in on_s3.names()
    assert not on_s3.client.list_multipart_uploads(Bucket="results-b").get("Uploads")


def test_a_file_that_changes_is_named_and_not_in_the_bucket(on_gcs: OnGcs, folder: Path) -> None:
    store = store_of(on_gcs)
    content = (folder / "a.bin").read_bytes()
    (folder / "a.bin").write_bytes(b"xyz")
    with pytest.raises(ChangedFile, match=r"a\.bin changed while it was uploaded"):
        store.upload("x/a.bin", folder / "a.bin", hashlib.sha256(content).hexdigest())
    assert on_gcs.names() == []


def test_a_large_file_that_changes_leaves_nothing_in_the_bucket(
    on_s3: OnS3, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_module, "PART", 100_000)
    with pytest.raises(ChangedFile, match=r"b c\.bin changed while it was uploaded"):
        store_of(on_s3).upload("x", folder / "sub/b c.bin", "0" * 64)
    assert on_s3.names() == []
    assert not on_s3.client.list_multipart_uploads(Bucket="results-b").get("Uploads")


def test_bytes_that_change_on_their_way_are_refused(on_gcs: OnGcs, folder: Path) -> None:
    on_gcs.store.flips = True
    with pytest.raises(RailheadError, match="MD5"):
        workflow.push(folder, uri_of(on_gcs, "x"), None)
    assert set(on_gcs.names()) <= {"x/sub/empty"}  # which has no byte that could change


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3:///x", "is not a bucket's name"),
        ("nowhere", "is not s3://bucket/prefix"),
        ("s3://no-such-bucket-1/x", "there is no bucket s3://no-such-bucket-1"),
    ],
)
def test_a_wrong_destination_is_refused(s3: Any, folder: Path, uri: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        workflow.push(folder, uri, None)


def test_a_wrong_source_is_refused(world: World, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name, expected in {"empty": "has no files", "nowhere": "no file or folder"}.items():
        with pytest.raises(UsageError, match=expected):
            workflow.push(tmp_path / name, uri_of(world, "x"), None)
    with pytest.raises(UsageError, match="has no bucket"):
        workflow.list_stack(replace(world.inventory, bucket=None))
