"""Results from a host that may be compromised: no file is written outside their folder."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import tarfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest
from standins.hostile import RESULT, Host, Member, chain, manifest, member, packed, symlink
from standins.runs.run_documents import run_json

from bootstrap.cli import status
from bootstrap.errors import RailheadError
from bootstrap.host.run import manifest as remote
from bootstrap.host.supervisor import stop_machines
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import parse_hosts
from bootstrap.lifecycle import stop_policy
from bootstrap.runs import results
from bootstrap.runs.run import Run, read_json
from bootstrap.ssh import connect
from bootstrap.ssh.local_session import local_session
from bootstrap.untrusted import unpack
from bootstrap.untrusted.run_files import read_state
from railhead.documents.codec import decode
from railhead.documents.runs.manifest import fault
from railhead.documents.runs.result import Result
from railhead.documents.runs.run import AfterRun
from railhead.documents.runs.run_record import RunRecord


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run whose results come to a folder that is not there yet."""
    return Run("r1", tmp_path / "project" / "results" / "r1")


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file of the user, two folders above the results."""
    (tmp_path / "precious").write_text("mine")
    return tmp_path / "precious"


def fetch(host: Host, run: Run, report: Callable[[str], None] = lambda _: None) -> Any:
    return results.fetch(cast(Any, host), run, report)


def came(run: Run) -> dict[str, str]:
    """The files here."""
    files = (p for p in run.results.rglob("*") if p.is_file())
    return {p.relative_to(run.results).as_posix(): p.read_text() for p in files}


def test_a_chain_of_links_writes_no_file_outside_the_results(run: Run, precious: Path) -> None:
    host = Host(packed([member("results/result.json", RESULT), *chain("../../precious")]))
    with pytest.raises(RailheadError):
        fetch(host, run)
    assert precious.read_text() == "mine"
    assert not (run.results / "result.json").exists(), "it would count as fetched"


DEEP = "/".join(["d"] * 32) + "/f"
HOSTILE: dict[str, list[Member]] = {
    "a chain of links": chain("../../precious"),
    "a link and a file through it": [symlink("up", "../.."), member("up/precious", b"evil")],
    "a file over a link": [symlink("results/a", "../../precious"), member("results/a", b"evil")],
    "an absolute name": [member("/tmp/railhead-evil", b"evil")],
    "a name that is the root": [member("/", b"")],
    "a name that leads up": [member("results/../../../precious", b"evil")],
    "a name without a part": [member("results//precious", b"evil")],
    "a prefix that hides an absolute name": [member("results//etc/evil", b"evil")],
    "a hard link to outside": [member("a", kind=tarfile.LNKTYPE, link="../../precious")],
    "a device": [member("results/null", kind=tarfile.CHRTYPE)],
    "a disk": [member("results/sda", kind=tarfile.BLKTYPE)],
    "a FIFO": [member("results/pipe", kind=tarfile.FIFOTYPE)],
    "a sparse file": [member("results/hole", kind=tarfile.GNUTYPE_SPARSE)],
    "an escape in a name": [member("results/\x1b]0;title\x07", b"x")],
    "a line break in a name": [member("results/a\nb", b"x")],
    "a name that turns its direction": [member("results/\u202egnp.exe", b"x")],
    "a name twice": [member("results/a", b"1"), member("results/a", b"2")],
    "two names for one file here": [member("run.json", b"1"), member("results/run.json", b"2")],
    "a file and a folder of one name": [member("results/a", b"1"), member("results/a/b", b"2")],
    "a folder and a file of one name": [member("results/a/b", b"1"), member("results/a", b"2")],
    "too deep": [member(DEEP, b"x")],
    "a part too long": [member("x" * 241, b"x")],
    "a name too long": [member("/".join(["x" * 200] * 6), b"x")],
    "a folder that is the result": [member("results/curves.svg/x", b"x")],
    "a folder that is our list": [member("results/left-on-host.txt/x", b"x")],
    "more bytes than are allowed": [member("results/a", bytes(600)), member("b", bytes(600))],
}


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_archive_leaves_nothing_here(
    run: Run, precious: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "OUTPUT_LIMIT", 1000)
    before = {p for p in precious.parent.rglob("*") if run.results not in p.parents}
    host = Host(packed([member("results/result.json", RESULT), *members]))
    with pytest.raises(unpack.Hostile) as caught:
        fetch(host, run)
    assert caught.value.message.isprintable(), "what it says reaches a terminal"
    assert came(run) == {} and precious.read_text() == "mine"
    after = {p for p in precious.parent.rglob("*") if run.results not in p.parents}
    assert after - before <= {run.results, *run.results.parents}
    assert not Path("/tmp/railhead-evil").exists()


def test_too_many_files_are_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "FILES", 10)
    with pytest.raises(unpack.Hostile, match="more than 10 files"):
        fetch(Host(packed([member(f"results/{n}") for n in range(21)])), run)
    assert came(run) == {}


class Counted(io.FileIO):
    """A file that counts what was read of it."""

    taken = 0

    def read(self, size: int = -1) -> bytes:  # type: ignore[override]
        data = super().read(size)
        Counted.taken += len(data)
        return data


@pytest.fixture(scope="module")
def zeros() -> bytes:
    """1 GB of zeros, deflated to 1 MB, as blocks that may follow any others."""
    squeeze = zlib.compressobj(wbits=-15)
    piece = squeeze.compress(bytes(1 << 20)) + squeeze.flush(zlib.Z_FULL_FLUSH)
    return piece * 1024


@pytest.mark.parametrize("where", ["in a file", "in a name", "after the end"])
def test_a_gzip_bomb_is_cut_off_while_it_is_read(
    run: Run, where: str, tmp_path: Path, zeros: bytes
) -> None:
    """What it announces is refused before it is unpacked."""
    kind = tarfile.GNUTYPE_LONGNAME if where == "in a name" else tarfile.REGTYPE
    head = member("results/a", b"")[0]
    head.type, head.size = kind, (0 if where == "after the end" else 2 << 30)
    squeeze = zlib.compressobj(wbits=31)
    data = squeeze.compress(head.tobuf(tarfile.GNU_FORMAT)) + squeeze.flush(zlib.Z_FULL_FLUSH)
    data += zeros  # and no checksum: nobody may read so far
    (tmp_path / "bomb").write_bytes(data)
    import gzip

    with Counted(tmp_path / "bomb") as raw:
        Counted.taken = 0
        archive = gzip.GzipFile(fileobj=cast(Any, raw))
        if where == "after the end":
            assert list(unpack._entries(archive, 1000)) == [("results/a", 0)]
        else:
            with pytest.raises(unpack.Hostile, match="bytes"):
                list(unpack._entries(archive, 1000))
    assert Counted.taken < 300_000, "the bomb was read further than its first header"
    if where != "after the end":
        with pytest.raises(unpack.Hostile):
            fetch(Host(data), run)
    assert came(run) == {}


DAMAGED = {
    "nothing": b"",
    "no gzip": b"<html>",
    "cut off": packed([member("results/a", os.urandom(5000))])[:2000],
    "no tar": zlib.compress(b"x" * 512, wbits=31),
    "noise in gzip": packed([member("a", b"x")])[:12] + b"\xff" * 50,
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_archive_is_reported(run: Run, data: bytes) -> None:
    with pytest.raises(unpack.Hostile, match="damaged"):
        fetch(Host(data), run)


GOOD = [
    member("results/result.json", RESULT),
    member("results/model/variables/v.data", b"weights"),
    member("logs/rank-0.log", b"hello\n"),
    member("work/" + "long" * 50 + "/m\u00f6del.h5", b"h5"),
]


def test_trees_are_placed_where_they_belong(run: Run) -> None:
    assert fetch(Host(packed(GOOD)), run) == Result(state="succeeded")
    assert came(run) == {
        "result.json": RESULT.decode(),
        "model/variables/v.data": "weights",
        "logs/rank-0.log": "hello\n",
        "outputs/" + "long" * 50 + "/m\u00f6del.h5": "h5",
    }


@pytest.mark.parametrize("texts", [{}, {"uploads.json": ""}], ids=["missing", "emptied"])
def test_a_document_that_a_power_failure_has_emptied_counts_as_none(texts: dict[str, str]) -> None:
    assert read_json(cast(Any, Host(b"", texts)), "~/r1/uploads.json", Result) is None
    damaged = cast(Any, Host(b"", {"uploads.json": "{"}))
    with pytest.raises(unpack.Hostile, match="a file uploads.json"):
        read_json(damaged, "~/r1/uploads.json", Result)


def test_a_link_that_stands_here_already_is_not_written_through(run: Run, precious: Path) -> None:
    run.results.mkdir(parents=True)
    for name in ("result.json", "left-on-host.txt", "curves.svg"):
        (run.results / name).symlink_to(precious)
    record = b'{"kind": "epoch", "epoch": 1, "loss": 1.0, "rank": 0, "host": "a", "time": 1}\n'
    more = [member("results/metrics.jsonl", record * 3)]
    fetch(Host(packed([*GOOD, *more]), answer={"left": [["work/big", 5]]}), run)
    assert precious.read_text() == "mine"
    assert not any(p.is_symlink() for p in run.results.iterdir())


def test_a_folder_here_that_is_a_link_is_reported_and_not_entered(run: Run, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run.results.mkdir(parents=True)
    (run.results / "outputs").symlink_to(elsewhere)
    (run.results / "result.json").write_text(RESULT.decode())  # of an earlier fetch
    with pytest.raises(RailheadError, match="outputs is a link"):
        fetch(Host(packed(GOOD)), run)
    assert not list(elsewhere.iterdir())
    assert not (run.results / "result.json").exists()


LISTS: dict[str, dict[str, Any]] = {
    "a list that is none": {"left": 5},
    "a name that is none": {"left": [[None, 1]]},
    "a name that leads up": {"left": [["../x", 1]]},
    "a size that is none": {"left": [["x", "many"]]},
    "a line break in a name": {"left": [["a\nb", 1]]},
    "skipped things that are none": {"skipped": ["x"]},
    "a skipped thing without a name": {"skipped": [{"path": 1, "kind": "link"}]},
    "a changed file that leads up": {"changed": ["../x"]},
}


@pytest.mark.parametrize("answer", LISTS.values(), ids=LISTS)
def test_a_list_of_files_is_checked_as_names_are(run: Run, answer: dict[str, Any]) -> None:
    with pytest.raises(unpack.Hostile):
        fetch(Host(packed(GOOD), answer=answer), run)
    assert came(run) == {}


WHOLE = {"path": "results/result.json", "bytes": 1, "sha256": sha256(RESULT).hexdigest()}
MANIFESTS = {
    "no JSON": "{",
    "no object": "[]",
    "without files": "{}",
    "too deep": "[" * 100_000,
    "a path that leads up": manifest({**WHOLE, "path": "results/../../../precious"}),
    "an absolute path": manifest({**WHOLE, "path": "/etc/passwd"}),
    "a size that is none": manifest({**WHOLE, "bytes": True}),
    "a hash that is none": manifest({**WHOLE, "sha256": "../x"}),
    "a name twice": manifest(WHOLE, WHOLE),
    "a file and a folder": manifest(WHOLE, {**WHOLE, "path": "results/result.json/x"}),
}


@pytest.mark.parametrize("text", MANIFESTS.values(), ids=MANIFESTS)
def test_a_hostile_manifest_is_refused(run: Run, text: str) -> None:
    with pytest.raises(unpack.Hostile):
        fetch(Host(packed(GOOD), {"manifest.json": text}), run)
    assert came(run) == {}


def test_a_file_with_other_content_is_not_accepted(run: Run) -> None:
    wrong = manifest(WHOLE, {**WHOLE, "path": "logs/rank-0.log"})
    host = Host(packed(GOOD), {"manifest.json": wrong})
    with pytest.raises(RailheadError, match="1 file came with other content.*rank-0.log"):
        fetch(host, run)
    assert came(run) == {} and not host.written, "the chief must keep its machines"


@pytest.mark.parametrize("text", ["[]", "5", "{}", "{", '{"state": 1}'])
def test_an_invalid_result_is_reported(run: Run, text: str) -> None:
    with pytest.raises(unpack.Hostile, match="result.json that is not valid"):
        fetch(Host(packed([member("results/result.json", text.encode())])), run)


def test_files_that_were_not_fetched_are_named(run: Run) -> None:
    skipped = [
        {"path": "results/latest", "kind": "link"},
        {"path": "work/\x1b[2Jpipe", "kind": "FIFO"},
        {"path": "work/a\nb", "kind": "its name has control characters or is not UTF-8"},
    ]
    lines: list[str] = []
    fetch(Host(packed(GOOD), answer={"skipped": skipped}), run, lines.append)
    assert lines == [
        "not fetched: results/latest (link), work/pipe (FIFO), "
        "work/a b (its name has control characters or is not UTF-8)",
        f"files left on h1: 1, listed in {run.results / 'left-on-host.txt'}",
    ]
    listed = (run.results / "left-on-host.txt").read_text()
    assert "work/a b" in listed and "latest" not in listed, "a link has no content to lose"


def test_a_file_that_was_cut_while_it_was_read_is_not_fetched(run: Run) -> None:
    lines: list[str] = []
    host = Host(packed(GOOD[1:]), answer={"changed": ["logs/rank-0.log"]})
    assert fetch(host, run, lines.append) is None
    assert "logs/rank-0.log" not in came(run) and "model/variables/v.data" in came(run)
    assert lines == ["1 file changed during the transfer, not fetched: fab fetch again"]


@pytest.mark.parametrize("name", ["result.json", "run.json", "metrics.jsonl", "manifest.json"])
def test_a_hostile_fetch_does_not_prevent_the_next_one(run: Run, name: str) -> None:
    with pytest.raises(unpack.Hostile, match="a folder with the name of a file"):
        fetch(Host(packed([member(f"results/{name}/x", b"x")])), run)
    assert fetch(Host(packed(GOOD)), run) == Result(state="succeeded")


def test_a_folder_where_the_result_comes_is_named_with_what_to_do(run: Run) -> None:
    (run.results / "result.json/x").mkdir(parents=True)
    with pytest.raises(RailheadError, match="result.json is a folder here") as caught:
        fetch(Host(packed(GOOD)), run)
    assert caught.value.hint.startswith("move it away")
    assert results.result_of(run.results) is None


def test_a_file_of_the_program_in_the_place_of_curves_does_not_end_the_fetch(run: Run) -> None:
    """Otherwise each fetch would bring it back and fail, and the machines would wait for one."""
    curve = b'{"time": 1.0, "rank": 0, "kind": "epoch", "epoch": 1, "loss": 1.0}\n'
    files = [*GOOD, member("results/metrics.jsonl", curve), member("results/tensorboard", b"mine")]
    lines: list[str] = []
    host = Host(packed(files))
    assert fetch(host, run, lines.append) == Result(state="succeeded")
    assert (run.results / "tensorboard").read_bytes() == b"mine"
    assert "the curves were not drawn" in lines[-1] and f"{run.folder}/fetched" in [
        file.path for file in host.written
    ]


def test_files_left_on_the_chief_are_in_its_notice_and_its_state(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the fetch to the line that `fab status` prints about the machines."""
    chief = tmp_path / "chief"
    chief.mkdir()
    skipped = [{"path": "work/pipe", "kind": "FIFO"}, {"path": "work/lost", "kind": "unreadable"}]
    answer = {"left": [["work/big", 5], ["work/bigger", 6]], "skipped": skipped}
    host, lines = Host(packed(GOOD), answer=answer), list[str]()
    fetch(host, run, lines.append)
    listed = run.results / "left-on-host.txt"
    assert results.left_files(run.results) == len(listed.read_text().splitlines()) == 3
    assert lines[-1] == f"files left on h1: 3, listed in {listed}"
    for file in host.written:
        (chief / file.path.rpartition("/")[2]).write_text(file.text)
    monkeypatch.setattr(stop_machines, "RUN", str(chief))
    stopper = stop_machines.MachineStopper(decode(AfterRun, run_json()), "succeeded")
    (chief / "state.json").write_text('{"state": "succeeded", "pid": 7, "heartbeat": 1}')
    stopper.report("stopping")
    state = read_state((chief / "state.json").read_text())
    assert state.machines and state.machines.results == "partly fetched; files left on h1: 3"
    assert "files left on h1: 3" in stop_policy.describe_phase(state.machines)


def test_the_status_of_a_run_counts_the_files_that_were_left(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the files on a host, by its agent, to what `fab status` prints."""
    inventory, folder = parse_hosts("h1"), home / ".railhead/runs/r1"
    for path, data in {
        "results/result.json": RESULT,
        "results/small": b"x",
        "results/large.bin": bytes(700),
        "results/larger.bin": bytes(800),
        "state.json": b'{"state": "succeeded", "pid": 7, "heartbeat": 1}',
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    local_state.save_run(RunRecord("r1", inventory.name, str(run.results)))
    whole, listed = f"fetched to {run.results}", run.results / "left-on-host.txt"
    shown = {
        600: f"partly {whole}; files left on h1: 2, listed in {listed}",
        1400: f"partly {whole}; files left on h1: 1, listed in {listed}",
        2000: whole,
    }
    with local_session() as session:
        session.host = inventory.chief
        connect.start_agent(session)
        for remaining, limit in zip((2, 1, 0), shown, strict=True):
            monkeypatch.setattr(results, "OUTPUT_LIMIT", limit)
            results.fetch(session, run)
            assert json.loads((folder / "fetched").read_text()) == {"left": remaining}
            with local_session() as before_the_agent:
                before_the_agent.host = inventory.chief
                status._show_run(before_the_agent, run, {})
            line = f"run r1: succeeded; results {shown[limit]}"
            assert line in capsys.readouterr().out.splitlines()
            assert listed.exists() == bool(remaining)


def test_status_tells_a_run_that_has_not_started_from_one_whose_folder_was_removed(
    home: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its `fab train` was killed after it had sent the program."""
    inventory, folder = parse_hosts("h1"), home / ".railhead/runs/r1"
    local_state.save_run(RunRecord("r1", inventory.name, str(run.results)))
    with local_session() as session:
        session.host = inventory.chief
        status._show_run(session, run, {})
        assert "run r1: no longer on its chief;" in capsys.readouterr().out
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps(run_json()))
        status._show_run(session, run, {})
        assert "run r1: not started" in capsys.readouterr().out


@pytest.mark.root
def test_results_that_are_here_are_not_lost_for_a_host_without_inodes(home: Path, run: Run) -> None:
    disk, lines = home / ".railhead", list[str]()
    disk.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m,nr_inodes=40", "none", str(disk)]
    if subprocess.run(mount, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        folder = disk / "runs/r1"
        (folder / "results").mkdir(parents=True)
        (folder / "results/result.json").write_bytes(RESULT)
        with suppress(OSError):
            for number in range(40):
                (folder / f"results/{number}").touch()
        with local_session() as session:
            session.host = parse_hosts("h1").chief
            connect.start_agent(session)
            result = results.fetch(session, run, lines.append)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert result and "result.json" in came(run)
    assert "no inodes left" in lines[-2]
    assert lines[-1] == "next: fab exec --hosts h1 --cmd 'df -i ~'"


def test_only_a_run_that_has_ended_counts_as_fetched_on_its_chief(run: Run) -> None:
    """The chief stops the machines as soon as it has the notice and the run has ended."""
    begun, ended = Host(packed(GOOD[1:])), Host(packed(GOOD))
    for host in (begun, ended):
        fetch(host, run)
    assert not begun.written and ended.written


NAMES = ["a", "a b/\u00e9.bin", "\u7fa9", "a\\b", ".hidden", "...", "d/" * 31 + "f", "x" * 240]
NAMES += [
    "a\tb",
    "a\x7f",
    "\u200b",
    "\ud800",
    "a\u2028b",
    "d/" * 32 + "f",
    "x" * 241,
    "\u00e9" * 121,
]
NAMES += ["/".join(["x" * 200] * 6)]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_host_sends_just_the_names_that_are_accepted(name: str) -> None:
    assert bool(remote.kind_of(name, 0o100644)) is bool(fault(name))


def test_the_rest_of_a_killed_fetch_is_removed_and_a_fetch_in_progress_stays(
    tmp_path: Path,
) -> None:
    (tmp_path / ".fetch-dead").mkdir()
    with unpack.stage(tmp_path) as first, unpack.stage(tmp_path) as second:
        assert {*tmp_path.iterdir()} == {first, second}
    assert not list(tmp_path.iterdir())


def test_a_disk_that_is_full_here_is_a_message_with_the_command_that_fetches_elsewhere(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    host = Host(packed([member("results/result.json", RESULT)]))
    with monkeypatch.context() as patch, pytest.raises(RailheadError) as caught:
        patch.setattr(unpack, "new_file", full)
        fetch(host, run)
    assert "No space left on device; they are still on " in str(caught.value)
    assert caught.value.hint.startswith("fab fetch --run r1 --to FOLDER ")
    assert fetch(host, run) == Result(state="succeeded")
