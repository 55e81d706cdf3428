"""Local data reaches real hosts once, whole or not at all; an interrupted transfer continues."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from e2e.local_hosts import wait_until
from hosts.operator import Cluster
from standins.options import program
from standins.stores import object_stores
from standins.stores.object_stores import S3, Gcs

from bootstrap.clouds.gcp import client as gcp_client
from bootstrap.console.live import Board
from bootstrap.data import place, send, through_bucket
from bootstrap.data.folders import DataFile, LocalData, hashed, listed
from bootstrap.data.inputs import DataInput, check_shares, read_inputs
from bootstrap.data.send import PIECE
from bootstrap.data.spec import parse_each
from bootstrap.errors import HostsFailed, HostsNotReady, UsageError
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle import reach, teardown
from bootstrap.ssh.connect import Sessions
from bootstrap.ssh.session import Session
from bootstrap.ssh.traffic import host_traffic
from bootstrap.untrusted.unpack import Hostile
from railhead.documents.agent.data import DataState, NeededParts, PathsState, ReceiveData
from railhead.documents.runs.run import RunData

Opened = Sessions


@pytest.fixture
def inventory(cluster: Cluster, inventory: Inventory) -> Inventory:
    """Three SSH hosts of this machine."""
    return inventory


@pytest.fixture(scope="module")
def kept() -> Iterator[list[Opened]]:
    """The sessions of this file's tests; the last ones are open, unless a test has closed them."""
    kept: list[Opened] = []
    yield kept
    for sessions in kept:
        for session in sessions.values():
            session.close()


@pytest.fixture
def opened(inventory: Inventory, kept: list[Opened]) -> Opened:
    """Sessions with three hosts that have no data yet, and their agents."""
    if not kept or not all(session.connection.is_connected for session in kept[-1].values()):
        kept.append(reach.sessions(inventory))
        for session in kept[-1].values():
            session.start_agent("python3")
    for session in kept[-1].values():
        session.remove("~/.railhead/data")
    return kept[-1]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Files of several sizes, one of more than a piece."""
    folder = tmp_path / "data"
    for name, size in {"a.bin": 3, "sub/b.bin": PIECE * 3 + 7, "sub/c.bin": 0, "d.bin": 50}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(os.urandom(size))
    return folder


def home_of(cluster: Cluster, name: str) -> Path:
    return next(m.home for m in cluster.machines if m.name == name)


def inputs_of(*texts: str) -> tuple[DataInput, ...]:
    return read_inputs(parse_each(program(data=texts).data, script=True))


def contents(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


def place_data(inputs: Sequence[DataInput], sessions: Sessions) -> list[RunData]:
    """As a run does, with the Python of these tests in place of the runtime's."""
    environment = SimpleNamespace(interpreter=sys.executable)
    cluster: Any = SimpleNamespace(
        sessions=sessions, inventory=sessions.inventory, environment=environment
    )
    return place.place_data(inputs, cluster)


def folder_on(cluster: Cluster, name: str, path: str) -> Path:
    return home_of(cluster, name) / path.removeprefix("~/")


def folders(document: RunData, opened: Opened, cluster: Cluster) -> list[Path]:
    """The folder of the data on each host."""
    return [folder_on(cluster, *pair) for pair in zip(opened, document.paths or (), strict=True)]


OVERHEAD = 300_000  # bytes of the protocol and of questions and answers, on all connections


class Sent:
    """Counts the bytes that left for the hosts."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self.hosts = hosts
        self.begin = self._total()

    def _total(self) -> int:
        return sum(host_traffic(name).sent for name in self.hosts)

    @property
    def bytes(self) -> int:
        return self._total() - self.begin


@pytest.fixture
def sent(opened: Opened) -> Sent:
    return Sent(list(opened))


def test_every_host_gets_the_folder_once(
    data: Path, opened: Opened, cluster: Cluster, sent: Sent, capsys: pytest.CaptureFixture[str]
) -> None:
    (document,) = place_data(inputs_of(f"train={data}"), opened)
    assert document.name == "train" and document.mode == "file"
    for folder in folders(document, opened, cluster):
        assert contents(folder) == contents(data)
        assert stat.S_IMODE((folder / "a.bin").stat().st_mode) == 0o444
        assert not list(folder.parent.glob("*.part")) and not list(
            folder.parent.glob("*.incoming*")
        )
    once = 3 * sum(len(x) for x in contents(data).values())
    assert once < sent.bytes < once + OVERHEAD
    assert place_data(inputs_of(f"train={data}"), opened) == [document]
    assert sent.bytes < once + OVERHEAD, "sent a second time"
    assert "already on all hosts" in capsys.readouterr().out


def test_shard_gives_each_host_its_own_files(data: Path, opened: Opened, cluster: Cluster) -> None:
    (document,) = place_data(inputs_of(f"train={data},shard"), opened)
    by_host = [contents(folder) for folder in folders(document, opened, cluster)]
    assert [sorted(x) for x in by_host] == [["a.bin", "sub/c.bin"], ["d.bin"], ["sub/b.bin"]]
    assert {k: v for x in by_host for k, v in x.items()} == contents(data)


def arrived(folder: Path) -> bool:
    """Whether a host has both pieces of a file that it was sent."""
    return any(part.stat().st_size >= 2 * PIECE for part in folder.glob("*.incoming-*"))


def test_an_interrupted_transfer_continues_inside_a_file(
    data: Path, inventory: Inventory, opened: Opened, cluster: Cluster
) -> None:
    local = hashed(listed(data, "train"), lambda _: None)
    for name, session in opened.items():
        folder = home_of(cluster, name) / ".railhead/data"

        def cut(event: NeededParts, folder: Path = folder) -> Iterator[bytes]:
            for number, _ in event.need:
                content = (data / local.files[number].path).read_bytes()
                yield content[: 2 * PIECE]
                if len(content) > PIECE:
                    wait_until(lambda: arrived(folder), 60, "both pieces arrive")
                    raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            session.send_stream(ReceiveData(send.host_folder_of(local), local.manifest()), cut)
    for session in opened.values():
        session.close()
    with reach.sessions(inventory) as again:
        for session in again.values():
            session.start_agent("python3")
        sent = Sent(list(opened))
        part = next((home_of(cluster, "h1") / ".railhead/data").glob("*.part"))
        state = again["h1"].call(DataState((f"~/.railhead/data/{part.stem}",)))
        (held,) = state.folders.values()
        assert not held.complete and held.there >= 2 * PIECE, "what arrived needs no room"
        (document,) = place_data(inputs_of(f"train={data}"), again)
    for folder in folders(document, opened, cluster):
        assert contents(folder) == contents(data)
    assert sent.bytes < 3 * (PIECE + 100) + OVERHEAD, (
        "a.bin, d.bin and the start of b.bin were there"
    )


def test_files_removed_or_damaged_on_a_host_are_sent_again_alone(
    data: Path, opened: Opened, cluster: Cluster, sent: Sent, capsys: pytest.CaptureFixture[str]
) -> None:
    (document,) = place_data(inputs_of(f"train={data}"), opened)
    before = sent.bytes
    folder = folder_on(cluster, "h2", (document.paths or ())[1])
    (folder / "d.bin").unlink()
    (folder / "a.bin").chmod(0o600)
    (folder / "a.bin").write_bytes(b"bad")  # of the same size
    place_data(inputs_of(f"train={data}"), opened)
    assert contents(folder) == contents(data)
    assert sent.bytes < before + OVERHEAD < before + PIECE
    assert "already on all hosts" not in capsys.readouterr().out


def test_a_file_that_changes_while_it_is_sent_is_named_and_nothing_appears(
    data: Path, opened: Opened, cluster: Cluster
) -> None:
    local = hashed(listed(data, "train"), lambda _: None)
    shares = {name: {"train": local} for name in opened}
    lacks = send.find_missing(shares, opened)
    (data / "d.bin").write_bytes(b"x" * 50)
    with pytest.raises(HostsFailed, match=r"d\.bin changed while it was sent"):
        send.send_missing(shares, opened, lacks, Board(io.StringIO(), list(opened)))
    folder = home_of(cluster, "h1") / ".railhead/data"
    assert not [p for p in folder.iterdir() if p.is_dir() and p.suffix != ".part"]
    assert opened["h1"].call(DataState(())).free, "the channel still works"


def test_too_little_room_is_found_before_anything_is_sent(data: Path, opened: Opened) -> None:
    small = hashed(listed(data, "train"), lambda _: None)
    large = LocalData(data, (DataFile("d.bin", 10**17, small.files[0].sha256),))
    shares = {name: {"train": large if name == "h2" else small} for name in opened}
    with pytest.raises(HostsNotReady, match=r"h2 +needs .* for the data, .* are free") as caught:
        send.find_missing(shares, opened)
    assert (caught.value.outcomes["h1"], caught.value.outcomes["h3"]) == ("ok", "ok")


def test_only_bytes_that_have_not_arrived_need_room(
    data: Path, opened: Opened, cluster: Cluster
) -> None:
    train, other = (hashed(listed(path, "data"), lambda _: None) for path in (data, data / "sub"))
    arrived = {"h1": 0, "h2": 30, "h3": train.total_bytes + 5}
    for name, count in arrived.items():
        part = home_of(cluster, name) / f".railhead/data/{train.digest}.part"
        part.mkdir(parents=True)
        (part / "d.bin").write_bytes(bytes(count))
    lacks = send.find_missing({name: {"train": train, "other": other} for name in opened}, opened)
    assert {name: lack.needed - other.total_bytes for name, lack in lacks.items()} == {
        "h1": train.total_bytes,
        "h2": train.total_bytes - 30,
        "h3": 0,
    }


def test_a_complete_folder_requests_nothing(opened: Opened) -> None:
    requests: list[Any] = []

    def content(event: NeededParts) -> Iterator[bytes]:
        requests.append(event.need)
        return iter([b"x"] if event.need else [])

    sha256 = hashlib.sha256(b"x").hexdigest()
    for _ in range(2):
        opened["h1"].send_stream(ReceiveData("~/.railhead/data/y", (("f", 1, sha256),)), content)
    assert requests == [((0, 0),)]


def test_a_disk_that_fills_up_is_an_error_and_the_channel_still_works(
    opened: Opened, cluster: Cluster
) -> None:
    (home_of(cluster, "h1") / ".railhead/data/x.part").mkdir(parents=True)
    blocked = home_of(cluster, "h1") / ".railhead/data/x.incoming-0"
    blocked.mkdir()  # a write that fails, as on a full disk
    with pytest.raises(Exception, match="receive_data"):
        opened["h1"].send_stream(
            ReceiveData("~/.railhead/data/x", (("f", PIECE + 1, "0" * 64),)),
            lambda event: iter([bytes(PIECE + 1 - event.need[0][1])]),
        )
    assert opened["h1"].call(PathsState(("~",))).paths == {"~": "folder"}


def test_a_path_must_be_on_all_hosts(opened: Opened, cluster: Cluster, tmp_path: Path) -> None:
    for name in ("h1", "h2", "h3"):
        (home_of(cluster, name) / "there").mkdir(exist_ok=True)
    (home_of(cluster, "h1") / "there/x").write_text("x")
    (home_of(cluster, "h3") / "there").rmdir()
    with pytest.raises(HostsNotReady) as caught:
        place_data(inputs_of("train=host:~/there"), opened)
    assert json.dumps(caught.value.outcomes) == json.dumps(
        {"h1": "ok", "h2": "~/there is an empty folder", "h3": "there is no ~/there"}
    )
    for name in ("h2", "h3"):
        (home_of(cluster, name) / "there").mkdir(exist_ok=True)
        (home_of(cluster, name) / "there/x").write_text("x")
    (document,) = place_data(inputs_of("train=host:~/there"), opened)
    assert document.paths == ("~/there",) * 3


def test_data_of_a_bucket_is_left_to_the_hosts(opened: Opened) -> None:
    (document,) = place_data(inputs_of("train=s3://b-1/x,shard"), opened)
    assert document == RunData("train", "s3://b-1/x", "shard", "file", None)


def test_fewer_files_than_hosts_cannot_be_sharded(data: Path) -> None:
    (data / "manifest.json").write_text("{}")  # of shards: each host gets it
    others = (f"all={data}", "remote=s3://b-1/x,shard")
    check_shares(inputs_of(*others, f"train={data},shard"), 4)
    check_shares(inputs_of(*others), 5)
    with pytest.raises(UsageError, match="--data train: .* only 4 files for 5 hosts"):
        check_shares(inputs_of(*others, f"train={data},shard"), 5)


# --- Through the bucket of a stack


def test_a_host_downloads_only_data_that_is_in_the_bucket(data: Path) -> None:
    """The upload of one of two was refused: a host gets that one over its connection."""
    local, unused = hashed(listed(data, "x"), lambda _: None), cast(Any, None)
    downloads = through_bucket.Downloads({"0" * 64: "s3://b/data/0"}, "python", {}, unused)
    downloads.fetch(unused, local, unused)


@pytest.fixture
def stack(inventory: Inventory, s3_store: S3, monkeypatch: pytest.MonkeyPatch) -> Inventory:
    """The hosts as those of a stack with a bucket, which they and this machine may use."""
    with contextlib.suppress(Exception):  # made by an earlier test
        s3_store.make_bucket("stack-1")
    for name, value in s3_store.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(through_bucket, "MIN_BYTES", 1)
    return replace(inventory, bucket="s3://stack-1", region=object_stores.REGION)


def give(monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str]) -> None:
    """Make the hosts find these credentials, as those of a role."""
    real = Session.run

    def run(self: Session, argv: Sequence[str], **kw: Any) -> Any:
        return real(self, argv, **{**kw, "env": {**kw.get("env", {}), **variables}})

    monkeypatch.setattr(Session, "run", run)


@pytest.fixture
def stack_on_gcs(
    inventory: Inventory, gcs_store: Gcs, on_gcs: Any, monkeypatch: pytest.MonkeyPatch
) -> Inventory:
    """The same on Google Cloud; `on_gcs` is for the token of this machine."""
    gcs_store.make_bucket("stack-2")
    monkeypatch.setenv(f"{gcp_client.OVERRIDE}STORAGE", gcs_store.endpoint)
    monkeypatch.setattr(through_bucket, "MIN_BYTES", 1)
    return replace(inventory, bucket="gs://stack-2", region="us-central1")


@pytest.mark.parametrize(
    ("cloud", "storage"), [("stack", "s3_store"), ("stack_on_gcs", "gcs_store")]
)
def test_data_of_a_stack_goes_through_its_bucket(
    request: pytest.FixtureRequest,
    data: Path,
    opened: Opened,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    cloud: str,
    storage: str,
) -> None:
    stack: Inventory = request.getfixturevalue(cloud)
    store: S3 | Gcs = request.getfixturevalue(storage)
    give(monkeypatch, store.environ)
    sent = Sent(list(opened))
    (document,) = place_data(inputs_of(f"train={data}"), Sessions(stack, opened))
    readers = 3 * 400_000  # the program that downloads, on three hosts
    assert sent.bytes < readers < 3_100_000, "the data went over the connections"
    for folder in folders(document, opened, cluster):
        assert contents(folder) == contents(data)
    bucket = str(stack.bucket).rpartition("/")[2]
    prefix = f"data/{(document.paths or ())[0].rpartition('/')[2]}/"
    names = store.names(bucket, prefix)
    assert {n.removeprefix(prefix) for n in names} == contents(data).keys()
    assert store.get(bucket, f"{prefix}a.bin") == contents(data)["a.bin"]


def test_hosts_without_rights_to_the_bucket_get_the_data_over_their_connections(
    data: Path,
    opened: Opened,
    stack: Inventory,
    cluster: Cluster,
    sent: Sent,
    s3_store: S3,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    give(monkeypatch, s3_store.guest)
    sessions = Sessions(stack, opened)
    (document,) = place_data(inputs_of(f"train={data}"), sessions)
    assert "is not used: " in capsys.readouterr().out
    once = 3 * sum(len(x) for x in contents(data).values())
    assert once < sent.bytes < once + OVERHEAD
    assert contents(folder_on(cluster, "h2", (document.paths or ())[1])) == contents(data)


def test_a_stack_whose_bucket_is_gone_sends_the_data(
    data: Path, opened: Opened, stack: Inventory, sent: Sent, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions = Sessions(replace(stack, bucket="s3://stack-none"), opened)
    place_data(inputs_of(f"train={data}"), sessions)
    assert "s3://stack-none is not used for the data: there is no bucket" in capsys.readouterr().out
    assert sent.bytes > PIECE


@pytest.mark.parametrize("needed", [[(1, 0)], [(0, 4)], [(0, 0), (0, 0)]])
def test_a_request_that_no_host_makes_is_hostile(needed: list[tuple[int, int]]) -> None:
    data = LocalData(Path("/data"), (DataFile("a", 3, "0" * 64),))
    send._refuse_wrong(data, [(0, 1)], set())
    with pytest.raises(Hostile):
        send._refuse_wrong(data, needed, set())
    with pytest.raises(Hostile):
        send._refuse_wrong(data, [(0, 1)], {0})


def test_a_host_that_requests_a_file_again_in_a_later_event_is_hostile(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    data = LocalData(tmp_path, (DataFile("a", 3, "0" * 64),))
    received: list[bytes] = []

    def send_stream(request: ReceiveData, content: Any) -> Any:
        for _ in range(2):
            received.extend(content(NeededParts(((0, 1),))))

    session: Any = SimpleNamespace(host=SimpleNamespace(name="h1"), send_stream=send_stream)
    with pytest.raises(Hostile, match="the same file twice"):
        send._send(session, "train", data, Board(io.StringIO(), ["h1"]))
    assert received == [b"bc"]


def test_a_file_that_shrinks_while_it_is_sent_is_filled_up(tmp_path: Path) -> None:
    """The host waits for as many bytes as were listed, and finds the change by the hash."""
    (tmp_path / "a").write_bytes(b"abc")
    data = LocalData(tmp_path, (DataFile("a", PIECE + 5, "0" * 64),))
    pieces = itertools.islice(send._pieces(data, 0, 1), 10)
    assert b"".join(pieces) == b"bc" + bytes(PIECE + 2)


def test_a_purge_removes_the_data_and_the_receipt_names_it(
    inventory: Inventory, opened: Opened, cluster: Cluster, data: Path
) -> None:
    as_ad_hoc = replace(inventory, cloud="hosts")  # their sshd goes on: later tests need the hosts
    (document,) = place_data(inputs_of(f"x={data}"), opened)
    kept = teardown.remove_from_hosts(as_ad_hoc)
    assert "keys removed; runtimes, runs and data kept (--purge)" in kept.lines[-1].text
    assert folder_on(cluster, "h1", (document.paths or ())[0]).is_dir()
    purged = teardown.remove_from_hosts(as_ad_hoc, purge=True)
    texts = {line.text for line in purged.lines if line.verified}
    assert "~/.railhead removed: runtimes, runs and data" in texts
    for machine in cluster.machines:
        assert not (machine.home / ".railhead").exists()
