"""The terms of a run, and what keeps an earlier holder from publishing, in real object stores."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from standins.stores.object_stores import S3, Gcs

from bootstrap.host.base import json_file
from bootstrap.host.buckets.objects import Stored, WriteInProgress
from bootstrap.host.buckets.s3 import S3Objects
from bootstrap.host.lease import fence
from bootstrap.host.lease.fence import Fence, LeaseLost
from bootstrap.host.lease.holder import LeaseHolder
from bootstrap.host.lease.terms import Terms, Watch
from bootstrap.host.run import held
from bootstrap.host.run.lease import EXPIRED, HOLD
from bootstrap.host.upload import live_upload, restore_checkpoints, upload
from bootstrap.host.upload.live_upload import CheckpointUpload
from railhead.documents.runs.manifest import UploadedCheckpoints
from railhead.documents.runs.result import Attempt, Culprit
from railhead.documents.runs.state import RunState
from railhead.documents.runs.takeover import Claim, Term

NUMBERS = itertools.count()
FIRST, SECOND = Term(1, "h1", "mark-1"), Term(2, "h2", "mark-2")


@pytest.fixture(params=["s3_store", "gcs_store"])
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The folder of a run in a new bucket, of each cloud."""
    store: S3 | Gcs = request.getfixturevalue(request.param)
    for name, value in store.environ.items():
        monkeypatch.setenv(name, value)
    bucket = f"leases-{os.getpid()}-{next(NUMBERS)}"
    store.make_bucket(bucket)
    return store.uri(bucket, "runs/r1")


@pytest.fixture
def bucket(url: str) -> upload.Destination:
    """The same, for whoever may write it."""
    return upload.destination(url)


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """The run's folder on the host that has the first term."""
    return host(tmp_path / "h1", FIRST)


def host(folder: Path, term: Term) -> Path:
    """A run's folder on a host that has a term."""
    for name in ("checkpoints", "results", "logs"):
        (folder / name).mkdir(parents=True)
    held.begin(str(folder), term, held.now())
    return folder


def test_an_object_is_created_once_and_only_its_present_version_is_replaced(
    bucket: upload.Destination,
) -> None:
    objects = bucket.objects
    assert objects.look("a") is None
    first = objects.create("a", b"1", short_lived=True)
    assert first and objects.create("a", b"2") is None
    assert objects.look("a") == Stored(b"1", first)
    second = objects.replace("a", b"2", first, short_lived=True)
    assert second and second != first
    assert objects.replace("a", b"3", first) is None
    assert objects.look("a") == Stored(b"2", second)
    assert objects.replace("none", b"1", first) is None


def test_one_of_several_hosts_that_try_at_once_gets_a_term(bucket: upload.Destination) -> None:
    terms = Terms(bucket)
    with ThreadPoolExecutor(8) as pool:
        claims = [Claim(f"h{n}", f"m{n}") for n in range(8)]
        outcomes = list(pool.map(lambda claim: terms.claim(1, claim), claims))
    assert outcomes.count(True) == 1
    winner = claims[outcomes.index(True)]
    assert terms.chief(1) == winner
    assert terms.claim(1, winner), "a request that was repeated"
    assert terms.exists(1) and not terms.exists(2)


def test_a_standby_sees_beats_and_claims_after_the_last_one(
    bucket: upload.Destination, first: Path
) -> None:
    terms = Terms(bucket)
    watch = Watch(terms, seen=0, read=0)
    holder = LeaseHolder(str(first), FIRST, terms)
    for now in (10, 20, 30):
        assert holder.beat(held.now())
        watch.look(now)
    assert watch.beat and watch.beat.number == 3
    for now in range(40, 30 + int(EXPIRED), 10):
        watch.look(now)
        assert watch.decision(now) == "watch"
    watch.look(30 + EXPIRED)
    assert watch.decision(30 + EXPIRED) == "claim"
    assert terms.claim(2, Claim("h2", "mark-2"))
    assert not holder.beat(held.now()) and not holder.step(lives=True)
    assert held.has_lost(str(first))
    watch.look(140 + EXPIRED)
    assert watch.decision(140 + EXPIRED) == "end", "the run has another chief"


@pytest.mark.parametrize(("is_led", "decision"), [(True, "claim"), (False, "end")])
def test_a_run_that_nobody_has_led_is_not_taken_over(
    bucket: upload.Destination, is_led: bool, decision: str
) -> None:
    """A chief that has its term and was lost before its first beat has led."""
    terms = Terms(bucket)
    if is_led:
        assert terms.claim(1, Claim("h1", "mark-1"))
    watch = Watch(terms, seen=0, read=0)
    for now in (10, 50, EXPIRED):
        watch.look(now)
    assert watch.decision(EXPIRED) == decision


def test_a_run_whose_results_are_published_is_not_taken_over(
    bucket: upload.Destination, first: Path
) -> None:
    holder = LeaseHolder(str(first), FIRST, Terms(bucket))
    assert holder.step(lives=True)
    (first / held.ALIVE).unlink()  # everything is published
    assert not holder.step(lives=False)
    assert not held.has_lost(str(first)) and not Terms(bucket).claim(2, Claim("h2", "mark-2"))


def test_a_supervisor_that_gives_no_sign_of_life_gets_no_beats(
    bucket: upload.Destination, first: Path
) -> None:
    holder = LeaseHolder(str(first), FIRST, Terms(bucket))
    assert holder.step(lives=True)
    os.utime(first / held.LEASE, (held.now() - 20, held.now() - 20))
    assert holder.step(lives=False) and holder.number == 1
    os.utime(first / held.LEASE, (held.now() - HOLD, held.now() - HOLD))
    assert not holder.step(lives=True) and held.has_lost(str(first))


def test_the_lease_counts_from_the_begin_of_a_beat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standby may have seen it as soon as it was sent."""
    now = [100.0]
    monkeypatch.setattr(held, "now", lambda: now[0])

    class Slow:
        """A bucket whose answer takes 7 seconds."""

        def claim(self, *_: object) -> bool:
            return True

        def is_over(self, _: Term) -> bool:
            return False

        def write_beat(self, *_: object) -> None:
            now[0] += 7

    held.begin(str(tmp_path), FIRST, now[0])
    terms: Any = Slow()
    now[0] = 120.0
    assert LeaseHolder(str(tmp_path), FIRST, terms).step(lives=True)
    assert held.sent(str(tmp_path)) == 120.0


def test_signs_of_life_continue_after_an_error_until_their_file_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of a disk costs a sign; a chief without signs loses the lease."""
    alive = tmp_path / held.ALIVE
    alive.symlink_to(alive)  # too many links

    def times() -> Iterator[float]:
        yield 1.0
        alive.unlink()
        alive.touch()
        yield 2.0
        assert alive.stat().st_mtime == 2.0
        alive.unlink()
        yield 3.0

    signs = times()
    monkeypatch.setattr(held, "SIGN", 0.0)
    monkeypatch.setattr(held, "now", lambda: next(signs))
    held._give_signs(str(tmp_path))
    assert next(signs, None) is None


def checkpoint(run: Path, step: int) -> None:
    """A complete checkpoint."""
    folder = run / f"checkpoints/step-{step:08d}"
    folder.mkdir()
    (folder / "state.npz").write_text(f"arrays {step}")
    (folder / "manifest.json").write_text("{}")


def test_an_earlier_chief_publishes_nothing_and_a_new_one_continues_from_its_checkpoint(
    bucket: upload.Destination, url: str, first: Path, tmp_path: Path
) -> None:
    checkpoint(first, 10)
    earlier = CheckpointUpload(str(first), upload.destination(url, str(first)))
    assert earlier.step()
    (first / "results/manifest.json").write_text('{"files": []}')

    assert Terms(bucket).claim(2, Claim("h2", "mark-2"))
    second = host(tmp_path / "h2", SECOND)
    adopted = fence.rewrite_checkpoints(bucket, 2)
    outcome = restore_checkpoints.restore(bucket, str(second / "checkpoints"), keep_times=True)
    assert (outcome.files, outcome.damaged) == (2, ())
    live_upload.save_status(str(second), adopted)
    current = CheckpointUpload(str(second), upload.destination(url, str(second)))
    assert current.step() and current.files == earlier.files, "nothing is uploaded again"
    checkpoint(second, 20)
    assert current.step()

    checkpoint(first, 30)
    with pytest.raises(LeaseLost):
        earlier.step()
    with pytest.raises(LeaseLost):  # where it stood still after its look
        fence.rewrite_checkpoints(bucket, 1)
    with pytest.raises(LeaseLost):
        upload.upload(str(first), url)
    with pytest.raises(LeaseLost):  # a piece of its metrics
        earlier.bucket.put(str(first / "results/manifest.json"), "live/metrics.jsonl.0")
    restored = restore_checkpoints.restore(bucket, str(tmp_path / "back"))
    assert (restored.files, restored.damaged) == (4, ())
    assert bucket.objects.look(bucket.uri.key("manifest.json")) is None
    numbers = {file.object for file in current.files}
    assert numbers == {0, 1, 20_000, 20_001}, "an upload that was under way hits none of these"


def test_a_list_that_another_host_writes_between_look_and_upload_is_not_overwritten(
    bucket: upload.Destination,
) -> None:
    fence.rewrite_checkpoints(bucket, 1)

    def meanwhile(before: UploadedCheckpoints) -> UploadedCheckpoints:
        fence.rewrite_checkpoints(bucket, 2)
        return replace(before, files=())

    with pytest.raises(LeaseLost):
        fence.rewrite_checkpoints(bucket, 1, meanwhile)


@pytest.mark.parametrize("url", ["s3_store"], indirect=True)
def test_a_request_that_meets_its_own_earlier_one_in_progress_is_repeated(
    bucket: upload.Destination, first: Path
) -> None:
    """A request without an answer is sent again, and S3 refuses the second one meanwhile."""
    conflicts = itertools.chain([True, False] * 3, [True], itertools.repeat(False))

    def call(service: str, operation: str, **values: Any) -> Any:
        if "IfNoneMatch" in values and next(conflicts):
            error = {"Code": "ConditionalRequestConflict", "Message": "try again"}
            raise ClientError({"Error": error}, operation)
        return objects.client(service, operation, **values)

    objects: Any = bucket.objects
    busy = replace(bucket, objects=S3Objects(call, objects.name))
    holder = LeaseHolder(str(first), FIRST, Terms(busy))
    assert [holder.step(lives=True) for _ in range(2)] == [True] * 2
    assert held.is_held(str(first)) and Terms(bucket).beat(1)
    assert fence.rewrite_checkpoints(busy, 1).term == 1
    (results := first / "results/manifest.json").write_text('{"files": []}')
    for _ in range(2):  # of the last term, and of the results
        with pytest.raises(WriteInProgress):
            Fence(str(first), FIRST).create(busy, str(results), "manifest.json")
    Fence(str(first), FIRST).create(busy, str(results), "manifest.json")
    assert bucket.objects.look(bucket.uri.key("manifest.json"))


def test_results_are_published_by_one_host(
    bucket: upload.Destination, url: str, first: Path
) -> None:
    (first / "results/manifest.json").write_text('{"files": []}')
    upload.upload(str(first), url)
    upload.upload(str(first), url)  # again, after an answer that did not arrive
    (first / "results/manifest.json").write_text('{"files": [], "skipped": []}')
    with pytest.raises(LeaseLost):
        upload.upload(str(first), url)


class OtherFirst:
    """A store in which another host takes the run over before an object is created."""

    def __init__(self, bucket: upload.Destination) -> None:
        self.objects, self.terms = bucket.objects, Terms(bucket)
        self.claimed: list[bool] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.objects, name)

    def create(self, key: str, data: bytes, *, short_lived: bool = False) -> str | None:
        self.claimed.append(self.terms.claim(2, Claim("h2", "mark-2")))
        return self.objects.create(key, data, short_lived=short_lived)


class ExpiredStore(OtherFirst):
    """A store in which an object is created so slowly that the host's lease ends meanwhile."""

    folder = ""

    def create(self, key: str, data: bytes, *, short_lived: bool = False) -> str | None:
        held.drop(self.folder)
        return self.objects.create(key, data, short_lived=short_lived)


def test_a_host_whose_lease_ends_while_it_publishes_is_the_one_that_published(
    bucket: upload.Destination, first: Path
) -> None:
    """No other host takes a run over that has its results."""
    store = ExpiredStore(bucket)
    path, store.folder = first / "results/manifest.json", str(first)
    path.write_text('{"files": []}')
    Fence(str(first), FIRST).create(replace(bucket, objects=store), str(path), "manifest.json")
    assert bucket.objects.look(bucket.uri.key("manifest.json"))
    assert not store.terms.claim(2, Claim("h2", "mark-2"))


def test_the_end_of_a_run_during_a_takeover_does_not_release_the_lease(
    bucket: upload.Destination, first: Path
) -> None:
    store = OtherFirst(bucket)
    holder = LeaseHolder(str(first), FIRST, Terms(replace(bucket, objects=store)))
    (first / held.ALIVE).unlink()
    assert holder.step(lives=False) and not holder.step(lives=False)
    assert store.claimed == [True] and held.has_lost(str(first))


def test_a_late_beat_does_not_give_back_an_expired_lease(tmp_path: Path) -> None:
    """A host has looked at it meanwhile: another one may have the next term."""
    held.begin(str(tmp_path), FIRST, held.now() - HOLD - 1)
    assert not held.is_held(str(tmp_path))
    with contextlib.suppress(FileNotFoundError):
        held.renew(str(tmp_path), held.now())
    assert not held.is_held(str(tmp_path)) and held.has_lost(str(tmp_path))


def test_a_beat_has_the_attempts_of_the_run_so_far(tmp_path: Path) -> None:
    """A host that takes the run over continues the count, also after those of an earlier chief."""
    first, second = (Attempt(3, Culprit(0, "a", ("killed",)), seconds) for seconds in (1.0, 2.0))
    term = Term(1, "a", "mark-1", started="2026-11-27T10:00:00Z", attempts=(first,))
    holder = LeaseHolder(str(tmp_path), term, None)  # type: ignore[arg-type]
    assert holder.content(held.now()).attempts == (first,)
    state = RunState(state="running", pid=2, heartbeat=0.0, attempts=(first, second))
    json_file.save(str(tmp_path / "state.json"), state)
    assert holder.content(held.now()).attempts == (first, second)
