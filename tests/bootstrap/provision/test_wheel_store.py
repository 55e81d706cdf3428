"""The wheels that a stack's bucket keeps: what is believed, and what is left alone."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from e2e.local_hosts import Done, Operator, cluster
from standins.forks import run_fab

from bootstrap.clouds import bucket
from bootstrap.inventory import caches
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.plan.cluster import CachedWheel
from bootstrap.provision import wheel_store
from bootstrap.provision.wheel_store import find_cached_wheel, store_wheel

if TYPE_CHECKING:
    from standins.stores.buckets import OnGcs, World

HOSTS = (Host("h1", "192.0.2.1"),)
NAME = "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"
BUILT = b"PK a wheel\xff" * 999


@pytest.fixture
def folder() -> Path:
    """Where this computer would have the wheel."""
    return caches.cache("wheels") / "0123456789abcdef"


@pytest.fixture
def kept(world: World, folder: Path) -> str:
    """A wheel that another computer has brought; its url."""
    there = folder.with_name("there") / NAME
    there.parent.mkdir(parents=True)
    there.write_bytes(BUILT)
    store_wheel(world.inventory, there, folder.name)
    return f"{world.inventory.bucket}/wheels/{folder.name}"


def content(folder: Path) -> list[str]:
    """What is in a folder; nothing where there is none."""
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_without_a_bucket_nothing_is_queried(folder: Path) -> None:
    assert find_cached_wheel(Inventory("c", HOSTS, cloud="aws"), folder) is None


def test_a_bucket_may_lack_the_wheel(world: World, folder: Path) -> None:
    assert find_cached_wheel(world.inventory, folder) == CachedWheel(
        f"{world.inventory.bucket}/wheels/{folder.name}", in_bucket=False
    )
    assert content(folder) == []


def test_a_wheel_comes_where_there_is_none(world: World, folder: Path, kept: str) -> None:
    assert find_cached_wheel(world.inventory, folder) == CachedWheel(
        kept, in_bucket=True, downloaded=True
    )
    assert content(folder) == [NAME] and (folder / NAME).read_bytes() == BUILT
    assert find_cached_wheel(world.inventory, folder) == CachedWheel(kept, in_bucket=True)


def test_a_wheel_that_is_here_stays(world: World, folder: Path, kept: str) -> None:
    folder.mkdir()
    (folder / NAME).write_bytes(b"our own")
    assert find_cached_wheel(world.inventory, folder) == CachedWheel(kept, in_bucket=True)
    assert (folder / NAME).read_bytes() == b"our own"


def test_a_wheel_is_there_only_when_it_is_whole(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the wheel and the file that names it, nothing is cached."""
    (folder / NAME).parent.mkdir()
    (folder / NAME).write_bytes(BUILT)
    write, names = type(bucket.bucket_of(world.inventory).store).write, []

    def killed(self: Any, key: str, data: bytes) -> None:
        names.append(key)
        if len(names) == 2:
            raise KeyboardInterrupt
        write(self, key, data)

    monkeypatch.setattr(type(bucket.bucket_of(world.inventory).store), "write", killed)
    with pytest.raises(KeyboardInterrupt):
        store_wheel(world.inventory, folder / NAME, folder.name)
    assert names[1] == f"wheels/{folder.name}/wheel.json" and world.names() == names[:1]
    (folder / NAME).unlink()
    cached = find_cached_wheel(world.inventory, folder)
    assert cached and cached.in_bucket is False and content(folder) == []


def after(world: World, folder: Path) -> CachedWheel:
    """What is cached of a damaged wheel; the next one takes its place."""
    cached = find_cached_wheel(world.inventory, folder)
    assert cached and cached.in_bucket is False and content(folder) == []
    folder.mkdir()
    (folder / NAME).write_bytes(BUILT)
    store_wheel(world.inventory, folder / NAME, folder.name)
    (folder / NAME).unlink()
    assert find_cached_wheel(world.inventory, folder) == CachedWheel(
        cached.url, in_bucket=True, downloaded=True
    )
    return cached


@pytest.mark.parametrize(
    ("how", "output"), [("flip", "does not have the recorded sha256"), ("take", "no longer exists")]
)
def test_a_wheel_that_was_changed_is_not_used_and_makes_room(
    world: World, folder: Path, kept: str, how: str, output: str
) -> None:
    (wheel,) = (name for name in world.names() if name.endswith(".whl"))
    getattr(world, how)(wheel)
    assert after(world, folder).note == f"the wheel in {kept} is not used: {NAME} {output}"


@pytest.mark.parametrize(
    "entry",
    [
        "{",
        "[1]",
        json.dumps({"name": f"../{NAME}", "sha256": "0" * 64}),
        json.dumps({"name": f"{NAME}\n", "sha256": "0" * 64}),
        json.dumps({"name": NAME, "sha256": "../../runs/r1"}),
        json.dumps({"name": 1, "sha256": "0" * 64}),
        "[" * 100_000,
        json.dumps({"name": NAME, "sha256": "0" * 64, "more": "x" * 5000}),
    ],
    ids=["cut", "list", "folder", "line", "hash", "number", "deep", "large"],
)
def test_what_names_no_wheel_is_not_used_and_makes_room(
    on_gcs: OnGcs, folder: Path, entry: str
) -> None:
    on_gcs.put(f"wheels/{folder.name}/wheel.json", entry.encode())
    assert after(on_gcs, folder).note.endswith("is not used: its wheel.json names no wheel")


def test_a_bucket_without_a_login_is_a_note(folder: Path, no_aws: None) -> None:
    cached = find_cached_wheel(Inventory("c", HOSTS, cloud="aws", bucket="s3://b-1"), folder)
    url = f"s3://b-1/wheels/{folder.name}"
    assert cached and cached == CachedWheel(url, in_bucket=None, note=cached.note)
    expected = (
        f"wheels are neither downloaded from {url} nor stored there: AWS call failed: Unable to"
    )
    assert cached.note.startswith(expected)


def test_a_bucket_that_refuses_is_a_note(on_gcs: OnGcs, folder: Path) -> None:
    on_gcs.store.denied = (403, "forbidden", "no storage.objects.get access")
    cached = find_cached_wheel(on_gcs.inventory, folder)
    url = f"gs://results-b/wheels/{folder.name}"
    assert cached and cached == CachedWheel(url, in_bucket=None, note=cached.note)
    assert cached.note.startswith(
        f"wheels are neither downloaded from {url} nor stored there: Google"
    )
    assert "no storage.objects.get access" in cached.note


def test_a_write_that_fails_here_is_a_note(world: World, folder: Path, kept: str) -> None:
    """As on a full disk: no file of this process may become as large as the wheel."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(BUILT) - 1, hard))
    try:
        cached = find_cached_wheel(world.inventory, folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert cached and cached.in_bucket is None and "File too large" in cached.note
    assert content(folder) == []


def test_a_bucket_that_is_gone_is_a_note(world: World, folder: Path) -> None:
    world.drop()
    cached = find_cached_wheel(world.inventory, folder)
    assert cached and cached.in_bucket is None and "there is no bucket" in cached.note


def test_the_key_is_the_folders_name_and_so_are_two_kinds_of_hosts_apart(
    world: World, folder: Path, kept: str
) -> None:
    other = folder.with_name("fedcba9876543210")
    cached = find_cached_wheel(world.inventory, other)
    assert cached and cached.in_bucket is False and wheel_store.local_wheel(other) is None


# --- Two people of a team: the commands, their hosts and the calls to S3 are real


@pytest.fixture
def team(tmp_path: Path, s3: object) -> Iterator[list[Operator]]:
    """Two people, each with their own home, caches and hosts; the bucket is for both."""
    people = [
        Operator(tmp_path / who, tmp_path, tmp_path / f"{who}-caches") for who in ("ann", "bo")
    ]
    with ExitStack() as stack:
        for operator in people:
            name = f"kept-{operator.home.name}"
            stack.enter_context(cluster(operator.home, name, operator.caches))
            path = operator.home / ".railhead/clusters" / name / "cluster.json"
            text = path.read_text()
            stack.callback(path.write_text, text)  # what stops the hosts needs it
            # As machines of one stack: hosts on this computer take nothing from a bucket.
            machines = {"cloud": "hosts", "id": "stack-1"}
            machines |= {"bucket": "s3://results-b", "region": "us-east-1"}
            path.write_text(json.dumps({**json.loads(text), **machines}))
        yield people


def plan(who: Operator) -> Done:
    """Type `fab plan`."""
    process = run_fab(who.folder, ("plan",), who.environment(), 60)
    return Done(process.returncode, process.stdout + process.stderr)


@pytest.mark.slow
def test_what_one_has_built_the_other_finds(
    team: list[Operator], monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bo = team
    url = "s3://results-b/wheels/"
    planned = plan(ann).ended(0, "[h1] horovod: no wheel for this system yet: built here")
    key = planned.out.partition(f", then kept in {url}")[2].split("; ")[0]

    monkeypatch.setenv("XDG_CACHE_HOME", str(ann.caches))
    built = caches.cache("wheels") / key / NAME
    built.parent.mkdir()
    built.write_bytes(BUILT)
    store_wheel(Inventory("c", HOSTS, bucket="s3://results-b", region="us-east-1"), built, key)

    cached = plan(bo).ended(0, f"[h1, h2] horovod: install the wheel kept in {url}{key} ({NAME})")
    assert "built here" not in cached.out
    assert (bo.caches / "railhead/wheels" / key / NAME).read_bytes() == BUILT
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    plan(bo).ended(
        0, f"wheels are neither downloaded from {url}{key} nor stored there: AWS call failed"
    )
