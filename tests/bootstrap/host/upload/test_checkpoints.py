"""Checkpoints on hosts, in the bucket and here: only whole ones count, and nothing is trusted."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from standins.options import program
from standins.runs.run_documents import RUN
from standins.stores.buckets import ON_AWS

from bootstrap.clouds.aws.s3 import open_bucket
from bootstrap.clouds.bucket import Bucket
from bootstrap.errors import HostsFailed, RailheadError, UsageError
from bootstrap.host.agent import packing
from bootstrap.host.run.checkpoint_files import object_of
from bootstrap.host.upload import live_upload, upload
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.runs import checkpoints, restore
from bootstrap.runs.earlier_run import EarlierRun
from bootstrap.runs.run import Run
from bootstrap.ssh.session import Session
from bootstrap.untrusted.unpack import Hostile, literal
from bootstrap.workflows import resume
from railhead.documents.runs.manifest import Uploaded, Uploads

STEPS = {
    "step-00000010/state.npz": "old",
    "step-00000010/manifest.json": "{}",
    "step-00000020/state.npz": "new",
    "step-00000020/manifest.json": "{}",
    "step-00000030/state.npz": "torn",
    ".step-00000040.partial/manifest.json": "{}",
    "step-00000020/.hidden": "x",
}
NEWEST = {"step-00000020/state.npz": "new", "step-00000020/manifest.json": "{}"}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def content(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run("r1", tmp_path / "results" / "r1")


@pytest.fixture
def bucket(s3: Any, tmp_path: Path) -> Bucket:
    """A bucket with the checkpoints of STEPS, as a supervisor uploads them."""
    folder = tmp_path / "host"
    write(folder / "checkpoints", STEPS)
    sender = live_upload.CheckpointUpload(str(folder), upload.destination("s3://results-b/runs/r1"))
    assert sender.step()
    return Bucket(open_bucket("results-b", "us-east-1"))


def test_the_newest_whole_checkpoint_comes_from_a_host(session: Session, run: Run) -> None:
    facts = session.facts()
    assert checkpoints.on_host_without_agent(session, run).files == ()
    write(Path(facts.home) / ".railhead/runs/r1/checkpoints", STEPS)
    by_shell = checkpoints.on_host_without_agent(session, run)
    session.start_agent(facts.python or "")
    listed = checkpoints.on_host(session, run)
    assert listed == by_shell
    assert listed.newest == "step-00000020" and len(listed.files) == 4
    assert "step-00000020" in str(listed)
    checkpoints.fetch_from_host(session, run)
    assert content(run.results / "checkpoints") == NEWEST
    assert checkpoints.here(run).newest == "step-00000020"
    line = checkpoints.status_lines(session, run)
    assert len(line) == 1 and line[0].startswith("checkpoints: step-00000020")


def test_uploaded_files_that_a_program_names_are_counted() -> None:
    on_chief = checkpoints.of_list("h1", ["5 ./a.h5"])
    uploaded = [Uploaded(f"{name}.h5", 5, "", mtime_ns=1, object=1) for name in "ab"]
    (line,) = checkpoints.lines_of(on_chief, Uploads(files=tuple(uploaded)))
    assert line.endswith("; uploaded: 2 files")


@pytest.mark.parametrize("line", ["5", "x ./a", "1 ./../a", "9999999999999999999 ./a", "1 a"])
def test_a_list_of_files_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(Hostile):
        checkpoints.of_list("h1", [line])


def test_files_of_a_program_come_all(session: Session, run: Run) -> None:
    facts = session.facts()
    session.start_agent(facts.python or "")
    files = {"backup/ckpt-1.index": "i", "a[1]*.h5": "w"}
    write(Path(facts.home) / ".railhead/runs/r2/checkpoints", files)
    other = Run("r2", run.results)
    checkpoints.fetch_from_host(session, other)
    assert content(run.results / "checkpoints") == files


def test_the_newest_checkpoint_comes_from_the_bucket(bucket: Bucket, run: Run) -> None:
    assert checkpoints.in_bucket(bucket, run).newest == "step-00000020"
    checkpoints.fetch_from_bucket(bucket, run)
    assert content(run.results / "checkpoints") == NEWEST
    assert checkpoints.in_bucket(bucket, Run("r2", run.results)).files == ()


def test_an_object_that_is_not_that_of_the_manifest_is_refused(
    bucket: Bucket, s3: Any, run: Run
) -> None:
    for entry in json.loads(bucket.read("runs/r1/checkpoints/manifest.json") or b"")["files"]:
        key = f"runs/r1/checkpoints/files/{entry['object']:04d}"
        s3.put_object(Bucket="results-b", Key=key, Body=b"x" * entry["bytes"])
    with pytest.raises(RailheadError, match="differs from its manifest"):
        checkpoints.fetch_from_bucket(bucket, run)
    assert not content(run.results)


BROKEN = ["5", "{}", '{"files": [{}]}', '{"files": [{"path": "../x", "bytes": 1, "sha256": "0"}]}']


@pytest.mark.parametrize("text", BROKEN)
def test_a_manifest_that_is_none_is_refused(s3: Any, run: Run, text: str) -> None:
    s3.put_object(Bucket="results-b", Key="runs/r1/checkpoints/manifest.json", Body=text.encode())
    with pytest.raises(Hostile):
        checkpoints.in_bucket(Bucket(open_bucket("results-b", "us-east-1")), run)


def test_a_run_without_checkpoints_names_the_places(run: Run) -> None:
    refused = checkpoints.refuse_none(run, ["on a, b", "in s3://b"])
    assert isinstance(refused, UsageError)
    assert "run r1 has no checkpoint: looked on a, b, in s3://b" in str(refused)


def copy(old: Path, new: Path, **env: str) -> subprocess.CompletedProcess[str]:
    argv = ["sh", "-c", restore.COPY, "copy", str(old), str(new)]
    return subprocess.run(argv, capture_output=True, text=True, env={"PATH": env["path"]})


def test_a_copy_has_everything_but_hidden_names_and_may_be_written(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    write(old, STEPS)
    write(new, {".keep": ""})
    (old / "step-00000010/state.npz").chmod(0o444)
    assert copy(old, new, path="/usr/bin:/bin").returncode == 0
    visible = {name: text for name, text in STEPS.items() if "/." not in f"/{name}"}
    assert content(new) == visible
    assert (new / "step-00000010/state.npz").stat().st_mode & 0o200


def test_no_space_is_found_before_the_copy(tmp_path: Path) -> None:
    old, new, tools = tmp_path / "old", tmp_path / "new", tmp_path / "bin"
    write(old, STEPS)
    new.mkdir()
    tools.mkdir()
    (tools / "df").write_text("#!/bin/sh\necho x\necho '/dev/x 9 9 1 90% /'\n")
    (tools / "df").chmod(0o755)
    done = copy(old, new, path=f"{tools}:/usr/bin:/bin")
    assert done.returncode == 1 and "disk full: the checkpoints have" in done.stdout
    assert not content(new)


class Placed:
    """A session with a host that has these files of a run."""

    def __init__(self, name: str, *files: str) -> None:
        self.host, self.files = Host(name, name), files

    def sizes(self, *_: Any) -> tuple[tuple[str, int], ...]:
        return tuple((file, 1) for file in self.files)


def test_one_host_without_a_file_of_a_script_is_named(run: Run) -> None:
    files = checkpoints.Checkpoints("here", (("a.h5", 1), ("b.h5", 1)))
    source = restore.CheckpointSource(run, files, "here")
    sessions: Any = {"h1": Placed("h1", "a.h5", "b.h5"), "h2": Placed("h2", "a.h5")}
    with pytest.raises(HostsFailed) as caught:
        restore._refuse_lost(sessions, run, source)
    assert [text == "ok" for text in caught.value.outcomes.values()] == [True, False]
    sessions["h2"] = Placed("h2", "a.h5", "b.h5")
    restore._refuse_lost(sessions, run, source)


def test_a_download_of_which_each_file_was_damaged_starts_no_run(run: Run) -> None:
    """It would begin at step 0, as if it had no checkpoint."""
    files = checkpoints.Checkpoints("in the bucket", (("a.h5", 1),))
    source = restore.CheckpointSource(run, files, "bucket")
    sessions: Any = {"h1": Placed("h1")}
    with pytest.raises(HostsFailed, match="the checkpoints did not reach all hosts"):
        restore._refuse_lost(sessions, run, source)


def test_incomplete_checkpoints_here_are_not_sent(session: Session, run: Run) -> None:
    facts = session.facts()
    session.start_agent(facts.python or "")
    write(run.results / "checkpoints", STEPS)
    there = Path(facts.home) / ".railhead/runs/r3"
    (there / "checkpoints").mkdir(parents=True)
    source = restore.CheckpointSource(run, checkpoints.here(run), "here")
    restore._from_here(session, Run("r3", run.results), source)
    torn = "step-00000030/state.npz"
    assert {*content(there / "checkpoints")} == {
        name for name in STEPS if "/." not in f"/{name}" and name != torn
    }


NAMES = ["m[1].h5", "a*.h5", "what?.h5", "[!x].h5", "a**b/[]].h5", "[[]", "*"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_requested_by_its_name_also_where_that_is_a_pattern(
    tmp_path: Path, name: str
) -> None:
    write(tmp_path, {name: "w", "m1.h5": "other", "ab.h5": "other", "x.h5": "other"})
    assert [*packing.matching(str(tmp_path), [literal(name)])] == [(name, 1)]


class Holder:
    """A session with a host that has these checkpoint files of a run; `list` of them is by sh."""

    def __init__(self, name: str, *files: str) -> None:
        self.host = Host(name, name)
        self.files = files

    def shell(self, command: str, **_: Any) -> tuple[list[str], int]:
        return [f"1 ./{file}" for file in self.files], 0


Names = tuple[str, ...]


def step(*numbers: int) -> Names:
    """The files of the complete checkpoints of these steps."""
    return tuple(f"step-{n:08d}/{name}" for n in numbers for name in ("state.npz", "manifest.json"))


class MemoryBucket(Bucket):
    """A bucket with these checkpoint files of a run, each with the content `b`; for a text instead
    of files, one that cannot be read."""

    def __init__(self, files: Names | str, run_id: str = "r1") -> None:
        listed: list[dict[str, Any]] = [
            {
                "path": path,
                "bytes": 1,
                "sha256": sha256(b"b").hexdigest(),
                "mtime_ns": 1,
                "object": number,
            }
            for number, path in enumerate(files)
        ]
        objects = {f"runs/{run_id}/{object_of(e['object'])}": b"b" for e in listed}
        if files:
            manifest = json.dumps({"files": listed})
            objects[f"runs/{run_id}/checkpoints/manifest.json"] = manifest.encode()

        def read(key: str) -> Iterator[bytes]:
            if isinstance(files, str):
                raise RailheadError(files, hint="log in")
            return iter([objects[key]])

        store: Any = SimpleNamespace(url="s3://results-b", read=read)
        super().__init__(store)


IN_BUCKET = "in s3://results-b/runs/r1"
PLACES: dict[str, tuple[Names, Names, Names | str, str]] = {
    # files on the chief, on another host, in the bucket; the place that counts
    "the chief is newer": (step(10, 40), (), step(20), "on h1"),
    "the bucket is newer": (step(10), (), step(10, 20), IN_BUCKET),
    "equal": (step(20), (), step(20), "on h1"),
    "the chief is newer than another host": (step(40), step(20), (), "on h1"),
    "another host is newer than the chief": (step(20), step(40), step(30), "on h2"),
    "the bucket is newer than all hosts": (step(20), step(30), step(40), IN_BUCKET),
    "equal on all hosts": (step(40), step(40), step(20), "on h1"),
    "more digits": (step(99_999_999), (), step(100_000_000), IN_BUCKET),
    "only on the chief": (step(20), (), (), "on h1"),
    "only on another host": ((), step(20), (), "on h2"),
    "only in the bucket": ((), (), step(20), IN_BUCKET),
    "torn on the chief": (("step-00000040/state.npz",), (), step(20), IN_BUCKET),
    "a program's own on the chief": (("own.h5",), (), step(20), "on h1"),
    "a program's own in the bucket": (step(20), (), ("own.h5",), "on h1"),
    "a program's own in both": (("own.h5",), (), ("own.h5",), "on h1"),
    "a program's own in the bucket alone": ((), (), ("own.h5",), IN_BUCKET),
    "a bucket out of reach": (step(20), (), "not logged in", "on h1"),
}


@pytest.mark.parametrize(("first", "second", "uploaded", "place"), PLACES.values(), ids=PLACES)
def test_a_run_continues_from_its_newest_checkpoint(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    first: Names,
    second: Names,
    uploaded: Names | str,
    place: str,
) -> None:
    """The upload follows the training; and a host may be a new one, or have an older copy."""
    monkeypatch.setattr(resume, "bucket_of", lambda inventory: MemoryBucket(uploaded))
    cluster: Any = SimpleNamespace(
        inventory=ON_AWS, sessions={"h1": Holder("h1", *first), "h2": Holder("h2", *second)}
    )
    earlier = EarlierRun(run, ON_AWS.name, RUN, program(), run.results)
    restore: Any = resume.find_checkpoints(cluster, earlier)
    source = restore.keywords["source"]
    assert source.checkpoints.place == place
    assert (source.kind, source.host) == (
        ("bucket", "") if place == IN_BUCKET else ("host", place.removeprefix("on "))
    )


def test_a_bucket_out_of_reach_is_an_error_where_no_host_has_a_checkpoint(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume, "bucket_of", lambda inventory: MemoryBucket("not logged in"))
    cluster: Any = SimpleNamespace(inventory=ON_AWS, sessions={"h1": Holder("h1")})
    earlier = EarlierRun(run, ON_AWS.name, RUN, program(), run.results)
    with pytest.raises(RailheadError, match="not logged in") as caught:
        resume.find_checkpoints(cluster, earlier)
    assert caught.value.hint == "log in"


# --- A run that continues in another cluster


def source_in_other_cluster(run: Run, cluster: str, sessions: Mapping[str, Session]) -> Any:
    """The source of the checkpoints of a run of `cluster`, in a cluster that has nothing of it."""
    here = Inventory("another", (Host("m2", "192.0.2.2"),))
    earlier = EarlierRun(run, cluster, RUN, program(), run.results)
    restore = resume.find_checkpoints(SimpleNamespace(inventory=here, sessions=sessions), earlier)  # type: ignore[arg-type]
    assert isinstance(restore, partial)
    return restore.keywords["source"]


def test_checkpoints_come_from_the_chief_of_the_cluster_where_the_run_was(
    session: Session, tmp_path: Path
) -> None:
    run = Run("r3", tmp_path / "results" / "r3")
    write(Path(session.facts().home) / ".railhead/runs/r3/checkpoints", STEPS)
    source = source_in_other_cluster(run, "checkpoints", {})
    assert (source.kind, source.checkpoints.newest) == ("here", "step-00000020")
    assert content(run.results / "checkpoints") == NEWEST


# The run, whose chief has the files; those in the bucket; the step that comes here.
OTHER: dict[str, tuple[str, Names, Names | str, int]] = {
    "the chief is newer": ("r4", step(20), step(10), 20),
    "the bucket is newer": ("r5", step(20), step(30), 30),
    "the chief was created again": ("r6", (), step(30), 30),
    "a bucket out of reach": ("r7", step(20), "not logged in", 20),
}


@pytest.mark.parametrize(("run_id", "first", "uploaded", "newest"), OTHER.values(), ids=OTHER)
def test_the_newest_checkpoint_of_the_other_cluster_comes(
    session: Session,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run_id: str,
    first: Names,
    uploaded: Names | str,
    newest: int,
) -> None:
    run = Run(run_id, tmp_path / "results" / run_id)
    other = local_state.load_cluster("checkpoints")
    local_state.save_cluster(replace(other, bucket="s3://results-b"))
    monkeypatch.setattr(resume, "bucket_of", lambda inventory: MemoryBucket(uploaded, run_id))
    files = dict.fromkeys(first, "h")
    write(Path(session.facts().home) / f".railhead/runs/{run_id}/checkpoints", files)
    source = source_in_other_cluster(run, "checkpoints", {})
    assert source.checkpoints.newest == f"step-{newest:08d}"
    content_of_it = "b" if newest == 30 else "h"
    assert content(run.results / "checkpoints") == dict.fromkeys(step(newest), content_of_it)


@pytest.mark.usefixtures("bucket")
def test_checkpoints_come_from_the_bucket_of_the_cluster_where_the_run_was(run: Run) -> None:
    """Its chief does not run."""
    gone = replace(ON_AWS, hosts=(Host("m1", "127.0.0.1", port=1),))
    local_state.save_cluster(gone)
    source = source_in_other_cluster(run, ON_AWS.name, {})
    assert (source.kind, source.checkpoints.newest) == ("here", "step-00000020")
    assert content(run.results / "checkpoints") == NEWEST


def test_a_cluster_out_of_reach_leaves_what_is_here(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    unreachable = replace(ON_AWS, hosts=(Host("m1", "127.0.0.1", port=1),), bucket=None)
    local_state.save_cluster(unreachable)
    with pytest.raises(UsageError, match="run r1 has no checkpoint: looked on m2, in "):
        source_in_other_cluster(run, ON_AWS.name, {})
    assert "checkpoints of dev cannot be reached: " in capsys.readouterr().out
    write(run.results / "checkpoints", STEPS)
    assert source_in_other_cluster(run, ON_AWS.name, {}).kind == "here"
