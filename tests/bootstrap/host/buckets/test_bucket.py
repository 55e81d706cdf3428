"""A bucket as it is seen from here: fetch, count, empty, and what goes wrong.

S3 is a real server; Google Cloud Storage is a stand-in that holds every call against Google's own
document. Where both must do the same, both are called.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("googleapiclient", reason="scripts/setup --dev installs it")

from botocore.exceptions import ClientError, ReadTimeoutError  # noqa: E402
from standins.gcp.storage import flipped  # noqa: E402
from standins.runs.manifests import manifest  # noqa: E402
from standins.runs.run_documents import record_run, run_document  # noqa: E402
from standins.stores import object_stores  # noqa: E402
from standins.stores.buckets import ON_AWS, ON_GCP, OnGcs, OnS3, World  # noqa: E402

from bootstrap.clouds import bucket, costs  # noqa: E402
from bootstrap.clouds import storage as cloud_storage
from bootstrap.clouds.aws.s3 import S3  # noqa: E402
from bootstrap.clouds.base import Refused
from bootstrap.clouds.gcp import batch
from bootstrap.clouds.storage import BucketContents, count_objects
from bootstrap.errors import Command, RailheadError, UsageError  # noqa: E402
from bootstrap.host.buckets import s3  # noqa: E402
from bootstrap.host.buckets.repeats import outlasting  # noqa: E402
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory  # noqa: E402
from bootstrap.lifecycle import consent
from bootstrap.lifecycle.receipt import price  # noqa: E402
from bootstrap.runs.bucket import results as bucket_results  # noqa: E402
from bootstrap.runs.run import Run, find_run  # noqa: E402
from railhead.documents.codec import encode
from railhead.documents.runs.cause import Cause
from railhead.documents.runs.manifest import home_name  # noqa: E402
from railhead.documents.runs.result import Result
from railhead.documents.runs.run import RunHost
from railhead.documents.runs.run_record import RunRecord
from railhead.documents.runs.takeover import NO_LEASE

FILES = {
    "run.json": b"{}",
    "results/result.json": b'{"state": "succeeded"}',
    "results/outputs.json": b'{"files": [["a b/m\xc3\xb6del?.bin", 7], ["empty", 0]]}',
    "logs/rank-0.log": b"hello\n",
    "work/a b/m\u00f6del?.bin": b"\r\nweights\0\xff",
    "work/empty": b"",
}


@pytest.fixture
def uploaded(world: World, tmp_path: Path) -> list[str]:
    """The objects of a run that was uploaded whole."""
    for name, data in FILES.items():
        path = tmp_path / "host" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    whole = manifest(str(tmp_path / "host"))
    names = [home_name(entry["path"]) for entry in whole["files"]]
    for entry, name in zip(whole["files"], names, strict=True):
        world.put(f"runs/r1/{name}", FILES[entry["path"]])
    world.put("runs/r1/manifest.json", json.dumps(whole).encode())
    return names


@pytest.mark.parametrize("is_first", [True, False])
def test_what_is_in_the_bucket_ends_the_run_whichever_chief_wrote_it(
    world: World, tmp_path: Path, is_first: bool
) -> None:
    """Whoever publishes has the last term. Before, the result of a first chief that lost the lease
    does not count."""
    run, cause = Run("r1", tmp_path / "results/r1"), Cause("host", NO_LEASE, "m1")
    hosts = tuple(RunHost(name, "10.0.0.1", None, 1) for name in ("m1", "m2"))
    document = run_document(cluster="dev", hosts=hosts, size=2, takeover=True)
    record_run(run.results, document)
    of_first = json.dumps(encode(Result(run_id="r1", state="failed", cause=cause)))
    run.results.mkdir(parents=True)
    (run.results / "result.json").write_text(of_first)
    assert consent.unfetched(world.inventory) == ["r1"]
    path = tmp_path / "host/results/result.json"
    path.parent.mkdir(parents=True)
    path.write_text(of_first if is_first else '{"state": "succeeded"}')
    world.put("runs/r1/result.json", path.read_bytes())
    world.put("runs/r1/manifest.json", json.dumps(manifest(str(tmp_path / "host"))).encode())
    result = bucket_results.fetch(world.inventory, run)
    assert result and result.state == ("failed" if is_first else "succeeded")
    assert consent.unfetched(world.inventory) == []


@pytest.fixture
def here(tmp_path: Path) -> Run:
    """Where the run's results come to, as the record knows it."""
    run = Run("r1", tmp_path / "results" / "r1")
    local_state.save_run(RunRecord("r1", "dev", str(run.results)))
    return run


def line_of(inventory: Inventory, run_id: str | None) -> str:
    """What `fab status` prints about a recorded run."""
    return bucket_results.run_line(inventory, find_run(inventory, run_id))


# --- Fetch


def test_a_name_that_git_runs_is_changed_in_results_of_the_bucket(
    world: World, here: Run, tmp_path: Path
) -> None:
    config = tmp_path / "host/results/.git/config"
    config.parent.mkdir(parents=True)
    config.write_text("x")
    world.put("runs/r1/.git/config", b"x")
    whole = json.dumps(manifest(str(tmp_path / "host")))
    world.put("runs/r1/manifest.json", whole.encode())
    lines: list[str] = []
    bucket_results.fetch(world.inventory, here, lines.append)
    names = {str(p.relative_to(here.results)) for p in here.results.rglob("*")}
    assert names == {"dot-git", "dot-git/config", "renamed.txt"}
    assert [line for line in lines if str(here.results / "renamed.txt") in line]


def test_results_come_from_the_bucket_when_the_chief_does_not_run(
    world: World, here: Run, uploaded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = world.inventory.bucket
    assert f"results in {url}/runs/r1: fab fetch" in line_of(world.inventory, "r1")
    here.results.mkdir(parents=True)
    (here.results / "left-on-host.txt").write_text("2.0 GB  work/model.bin")
    (here.results / "result.json").write_text('{"state": "failed"}')
    partly = line_of(world.inventory, "r1")
    assert f"failed; results partly fetched to {here.results}; files left on m1: 1" in partly
    assert f"these are in {url}/runs/r1: fab fetch --run r1" in partly
    lines: list[str] = []
    monkeypatch.setattr(bucket_results, "LARGE", 20)
    result = bucket_results.fetch(world.inventory, here, lines.append)
    assert result and result.state == "succeeded"
    assert lines == [f"from {url}: 5 files, 41 B", "  result.json, 22 B"]
    fetched = {str(p.relative_to(here.results)) for p in here.results.rglob("*") if p.is_file()}
    assert fetched == set(uploaded)
    got = (here.results / "outputs/a b/m\u00f6del?.bin").read_bytes()
    assert got == FILES["work/a b/m\u00f6del?.bin"]
    assert "succeeded; results fetched to" in line_of(world.inventory, None)


def test_results_that_are_not_in_the_bucket_are_on_the_chief(world: World, here: Run) -> None:
    with pytest.raises(UsageError, match="they are only on m1, which does not run"):
        bucket_results.fetch(world.inventory, here)
    assert "results only on m1" in line_of(world.inventory, None)


@pytest.mark.parametrize(
    "name", ["outputs/a b/m\u00f6del?.bin", "result.json", "logs/rank-0.log", "run.json"]
)
def test_one_bit_of_an_object_flipped_is_not_a_result(
    world: World, here: Run, uploaded: list[str], name: str
) -> None:
    world.flip(f"runs/r1/{name}")
    with pytest.raises(RailheadError, match="1 file came with other content") as caught:
        bucket_results.fetch(world.inventory, here)
    assert Path(name).name in caught.value.message
    assert not (here.results / "result.json").exists(), "it would count as fetched"


def test_an_object_that_somebody_removed_is_named(
    world: World, here: Run, uploaded: list[str]
) -> None:
    world.take("runs/r1/logs/rank-0.log")
    with pytest.raises(RailheadError, match="runs/r1/logs/rank-0.log was deleted from"):
        bucket_results.fetch(world.inventory, here)
    assert not (here.results / "result.json").exists()


def test_a_manifest_leads_nowhere_else(world: World, here: Run) -> None:
    files = [{"path": "../../evil", "bytes": 1, "sha256": ""}]
    world.put("runs/r1/manifest.json", json.dumps({"files": files}).encode())
    with pytest.raises(RailheadError, match="a plain path below its folder"):
        bucket_results.fetch(world.inventory, here)


def test_an_object_that_is_longer_than_its_manifest_reports_is_cut_off(
    world: World, here: Run, uploaded: list[str]
) -> None:
    world.put("runs/r1/logs/rank-0.log", bytes(1_000_000))
    with pytest.raises(RailheadError, match="logs/rank-0.log of more bytes"):
        bucket_results.fetch(world.inventory, here)
    assert not list(here.results.iterdir())


def test_results_that_would_fill_the_disk_here_are_not_begun(world: World, here: Run) -> None:
    files = [{"path": "work/huge", "bytes": 10**15, "sha256": "0" * 64}]
    world.put("runs/r1/manifest.json", json.dumps({"files": files}).encode())
    with pytest.raises(UsageError, match="1000.0 TB"):
        bucket_results.fetch(world.inventory, here)


def test_results_of_a_bucket_are_not_written_through_a_link(
    world: World, here: Run, uploaded: list[str], tmp_path: Path
) -> None:
    (tmp_path / "precious").write_text("mine")
    (here.results / "logs").mkdir(parents=True)
    (here.results / "logs/rank-0.log").symlink_to(tmp_path / "precious")
    (here.results / "run.json.part").symlink_to(tmp_path / "precious")
    bucket_results.fetch(world.inventory, here)
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_bucket_that_is_gone_is_named(world: World, here: Run) -> None:
    world.drop()
    with pytest.raises(
        cloud_storage.NoBucket, match=f"there is no bucket {world.inventory.bucket}"
    ):
        bucket_results.fetch(world.inventory, here)
    assert "there is no bucket" in line_of(world.inventory, None)


def test_a_stack_without_a_bucket_reports_so() -> None:
    with pytest.raises(UsageError, match="dev has no bucket"):
        bucket.bucket_of(replace(ON_GCP, bucket=None))


def test_a_download_that_breaks_off_is_not_a_file(on_gcs: OnGcs, tmp_path: Path) -> None:
    on_gcs.put("big", os.urandom(3 << 20))
    on_gcs.store.cuts = True
    with pytest.raises(RailheadError, match="Google call failed"):
        bucket.bucket_of(ON_GCP).get("big", tmp_path / "big", 3 << 20)
    assert not (tmp_path / "big").exists()
    on_gcs.store.cuts = False
    bucket.bucket_of(ON_GCP).get("big", tmp_path / "big", 3 << 20)
    assert (tmp_path / "big").stat().st_size == 3 << 20


def test_what_s3_has_another_hash_of_is_reported_while_it_comes(
    on_s3: OnS3, s3_store: object_stores.S3
) -> None:
    """What rots in S3 itself: boto compares the hash that the object was written with."""
    on_s3.client.put_object(
        Bucket="results-b", Key="k", Body=b"weights", ChecksumAlgorithm="SHA256"
    )
    (s3_store.folder / "buckets/results-b/k").write_bytes(flipped(b"weights"))
    with pytest.raises(RailheadError, match="AWS call failed: Expected checksum"):
        bucket.bucket_of(ON_AWS).read("k")


def test_a_body_of_s3_that_ends_early_is_an_error_for_people() -> None:
    from botocore.exceptions import IncompleteReadError

    class Cut:
        def read(self, _: int) -> bytes:
            raise IncompleteReadError(actual_bytes=1, expected_bytes=2)

    kept = S3(lambda *_, **__: {"Body": Cut()}, "b")
    with pytest.raises(RailheadError, match="AWS call failed: 1 read, but total bytes"):
        list(kept.read("k"))


def test_what_changes_on_its_way_from_google_is_reported(on_gcs: OnGcs) -> None:
    on_gcs.put("k", b"weights")
    on_gcs.store.live("results-b", "k")[0]["data"] = flipped(b"weights")
    with pytest.raises(RailheadError, match="other content than its MD5 is of"):
        bucket.bucket_of(ON_GCP).read("k")


def test_an_upload_that_google_is_too_busy_for_is_repeated_whole(
    on_gcs: OnGcs, tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(WHEEL)
    on_gcs.store.busy = 2
    store = bucket.bucket_of(ON_GCP).store
    store.upload("k", tmp_path / "f", hashlib.sha256(WHEEL).hexdigest())
    assert bucket.bucket_of(ON_GCP).read("k") == WHEEL


def refusal(code: str) -> ClientError:
    """The error for an answer of S3 with this code."""
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "PutObject")


@pytest.mark.parametrize("part", [64 << 20, 4], ids=["whole", "in parts"])
@pytest.mark.parametrize(
    ("error", "uploaded"),
    [
        (refusal("AccessDenied"), True),
        (refusal("SlowDown"), False),
        (ReadTimeoutError(endpoint_url="s3"), False),
    ],
    ids=["refused", "busy", "no answer"],
)
def test_without_the_right_to_set_tags_a_checkpoint_is_uploaded_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int, error: Exception, uploaded: bool
) -> None:
    """A stack has the right only after its next `pulumi up`."""
    monkeypatch.setattr(s3, "PART", part)
    (tmp_path / "f").write_bytes(WHEEL)
    written: list[str] = []

    def call(_: str, operation: str, **values: Any) -> Any:
        if "Tagging" in values:
            raise error
        written.append(operation)
        return {"UploadId": "u", "ETag": "e"}

    objects, sha256 = s3.S3Objects(call, "b"), hashlib.sha256(WHEEL).hexdigest()
    with nullcontext() if uploaded else pytest.raises(type(error)):
        objects.upload("k", tmp_path / "f", sha256, short_lived=True)
    last = "put_object" if part > len(WHEEL) else "complete_multipart_upload"
    assert (written[-1:] == [last]) == uploaded and bool(written) == uploaded


def test_a_large_file_goes_to_s3_in_parts_and_is_there_whole(
    on_s3: OnS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "PART", 5 << 20)  # S3 takes no smaller one, but the last
    data = os.urandom(11 << 20)
    (tmp_path / "f").write_bytes(data)
    store, sha256 = bucket.bucket_of(ON_AWS).store, hashlib.sha256(data).hexdigest()
    store.upload("k", tmp_path / "f", sha256)
    head = on_s3.client.head_object(Bucket="results-b", Key="k", PartNumber=3)
    assert (head["ContentLength"], head["Metadata"]) == (1 << 20, {"sha256": sha256})
    assert on_s3.client.get_object(Bucket="results-b", Key="k")["Body"].read() == data


# --- Count


def counted(inventory: Inventory) -> Any:
    """The line of a bucket on a receipt."""
    store = bucket.bucket_of(inventory).store
    return list(costs.bucket(store, inventory.region, inventory.cloud))


def test_all_versions_are_counted_and_priced_by_the_month(world: World) -> None:
    for data in (b"x" * 1000, b"y" * 2000):
        world.put("runs/r/model", data)
    (cost,) = counted(world.inventory)
    expected = "2 objects with their old versions, 0.00 GB"
    assert cost.description == f"bucket {world.inventory.bucket}, {expected}"
    each = 0.023 if world.inventory.cloud == "aws" else 0.020
    assert cost.amount == pytest.approx(3000 / 2**30 * each)
    assert cost.command == Command("teardown", destroy=True, with_bucket=True)
    assert price(cost).startswith("less than 0.01 USD per month (0.02")
    assert " USD per GB-month (" in price(cost) and ", 2026-" in price(cost)


def test_a_bucket_where_no_price_is_known_reports_so(world: World) -> None:
    world.put("k", b"1")
    (cost,) = counted(replace(world.inventory, region="af-south-1"))
    assert price(cost) == "its price is not known here"


def test_a_bucket_that_is_gone_costs_nothing(world: World) -> None:
    world.drop()
    assert counted(world.inventory) == []


def test_pages_are_followed_to_their_end_and_not_for_ever(
    on_gcs: OnGcs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        on_gcs.put(f"k{number // 2}", b"12345")
    on_gcs.store.page = 2
    assert count_objects(bucket.bucket_of(ON_GCP).store) == BucketContents(7, 35, whole=True)
    monkeypatch.setattr(cloud_storage, "PAGES", 2)
    assert count_objects(bucket.bucket_of(ON_GCP).store) == BucketContents(4, 20, whole=False)
    (cost,) = counted(ON_GCP)
    assert "more than 4 objects" in cost.description and cost.amount is None
    monkeypatch.setattr(cloud_storage, "PAGES", 4)
    assert count_objects(bucket.bucket_of(ON_GCP).store).whole


def test_pages_of_s3_are_followed_too(on_s3: OnS3, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        on_s3.put(f"k{number}", b"12345")
    kept = bucket.bucket_of(ON_AWS).store
    assert isinstance(kept, S3)

    def small(service: str, call: str, **options: Any) -> Any:
        return kept.client(service, call, MaxKeys=2, **options)

    assert [len(page) for page in S3(small, "results-b").objects()] == [2, 2, 1]
    pages = list(S3(small, "results-b").pages())  # this server repeats the last one of a page
    assert len(pages) > 2 and {entry.key for page in pages for entry in page} == {*on_s3.names()}


# --- Write

WHEEL = b"PK\x03\x04\r\n--\xff" * 9999


def test_what_is_written_is_read_again_whole(world: World) -> None:
    kept = bucket.bucket_of(world.inventory)
    for data in (b"{}", WHEEL):
        kept.store.write("wheels/k1/a b+m\u00f6.whl", data)
        assert kept.read("wheels/k1/a b+m\u00f6.whl") == data
    (page,) = kept.store.pages()
    assert len(page) == 2, "the one before is an old version"


def test_google_refuses_what_changes_on_its_way(on_gcs: OnGcs) -> None:
    on_gcs.store.flips = True
    with pytest.raises(Refused, match="MD5 hash does not match"):
        bucket.bucket_of(ON_GCP).store.write("wheels/k1", WHEEL)
    assert on_gcs.names() == []


def test_s3_gets_the_hash_that_it_is_to_compare() -> None:
    """S3 refuses bytes of another sha256."""
    values: dict[str, Any] = {}
    S3(lambda *_, **options: values.update(options), "b").write("k", b"weights")
    digest = base64.b64decode(values["ChecksumSHA256"])
    assert (values["Key"], digest) == ("k", hashlib.sha256(b"weights").digest())


def test_nothing_is_written_into_a_bucket_that_is_gone(world: World) -> None:
    world.drop()
    with pytest.raises(cloud_storage.NoBucket):
        bucket.bucket_of(world.inventory).store.write("k", b"1")


# --- Empty


def test_what_stands_below_a_name_is_removed_and_nothing_else(world: World) -> None:
    for name in ("wheels/k1/wheel.json", "wheels/k2/a", "runs/r1/wheels/x", "wheel"):
        world.put(name, b"1")
        world.put(name, b"2")
    assert bucket.bucket_of(world.inventory).empty(prefix="wheels/") == 4
    assert world.names() == ["runs/r1/wheels/x", "wheel"]


def test_a_bucket_is_emptied_of_old_versions_too(world: World) -> None:
    for data in (b"1", b"2"):
        world.put("runs/r1/a b/m\u00f6del?#.bin", data)
        world.put("runs/r1/k", data)
    world.take("runs/r1/k")
    marks = 1 if world.inventory.cloud == "aws" else 0
    lines: list[str] = []
    kept = bucket.bucket_of(world.inventory)
    assert kept.empty(lines.append) == 4 + marks
    assert lines == [f"{kept.store.url}: {4 + marks} objects and old versions removed"]
    assert kept.empty() == 0
    world.drop()
    assert kept.empty() == 0


def test_a_large_bucket_is_emptied_by_the_hundred(on_gcs: OnGcs) -> None:
    on_gcs.store.page = 220
    for number in range(250):
        on_gcs.put(f"k{number}", b"1")
    lines: list[str] = []
    assert bucket.bucket_of(ON_GCP).empty(lines.append) == 250
    assert on_gcs.store.batches == [100, 100, 20, 30]
    assert [line.split()[1] for line in lines] == ["220", "250"]


def test_what_may_not_be_removed_ends_the_emptying_after_the_rest(on_gcs: OnGcs) -> None:
    for name in ("a", "b", "c"):
        on_gcs.put(name, b"1")
    on_gcs.store.held = {"b": "Object 'results-b/b' is under active Temporary hold"}
    with pytest.raises(Refused, match="to remove b from gs://results-b: Object .* Temporary hold"):
        bucket.bucket_of(ON_GCP).empty()
    assert on_gcs.store.names("results-b") == ["b"]


def test_what_s3_does_not_remove_ends_the_emptying() -> None:
    """S3 refuses in an answer that is not an error; the server of the tests removes all keys."""
    page = {"Versions": [{"Key": "k", "VersionId": "1", "Size": 1}]}
    refusal = {"Errors": [{"Key": "k", "Code": "AccessDenied", "Message": "no"}]}
    values = {"list_object_versions": page, "delete_objects": refusal}
    kept = bucket.Bucket(S3(lambda _, call, **__: values[call], "b"))
    with pytest.raises(Refused, match="remove k from s3://b: AccessDenied: no"):
        kept.empty()


def test_an_answer_that_is_not_a_batch_is_not_believed() -> None:
    with pytest.raises(ValueError, match="not in several parts"):
        batch.decode("text/html", b"<html>")
    odd = b"--x\r\nContent-Type: application/http\r\n\r\n<html>\r\n--x--"
    with pytest.raises(ValueError, match="is not a status line"):
        batch.decode("multipart/mixed; boundary=x", odd)


# --- What goes wrong


def test_who_lacks_a_right_reads_google_s_own_sentence(on_gcs: OnGcs) -> None:
    expected = "me@p-1.iam.gserviceaccount.com does not have storage.objects.list access"
    on_gcs.store.denied = (403, "forbidden", expected)
    kept = bucket.bucket_of(ON_GCP)
    for ask in (kept.empty, lambda: kept.read("k")):
        with pytest.raises(Refused, match=expected) as caught:
            ask()
        assert caught.value.hint.startswith("gcloud storage buckets get-iam-policy gs://results-b")


def test_who_lacks_a_right_on_s3_is_reported_who_asks(
    on_s3: OnS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = {"Error": {"Code": "AccessDenied", "Message": "not authorized"}}

    def refuse(*_: Any, **__: Any) -> None:
        from botocore.exceptions import ClientError

        raise ClientError(denied, "ListObjectVersions")

    kept = bucket.bucket_of(ON_AWS)
    monkeypatch.setattr("botocore.client.BaseClient._make_api_call", refuse)
    with pytest.raises(Refused, match="AccessDenied") as caught:
        kept.empty()
    assert caught.value.hint.startswith("aws sts get-caller-identity")


def test_no_login_is_reported_before_anything(
    on_gcs: OnGcs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, here: Run
) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    with pytest.raises(UsageError, match="not logged in") as caught:
        bucket_results.fetch(ON_GCP, here)
    assert caught.value.hint == "gcloud auth application-default login"
    assert "not logged in" in line_of(ON_GCP, None)


def test_a_token_that_is_not_valid_is_reported_with_the_login(on_gcs: OnGcs) -> None:
    kept = bucket.bucket_of(ON_GCP)
    kept.empty()
    on_gcs.store.token = "t-2"
    kept.empty()  # google-auth asks for a new one
    on_gcs.store.denied = (401, "authError", "Invalid Credentials")
    with pytest.raises(Refused, match="Invalid Credentials") as caught:
        kept.empty()
    assert caught.value.hint == "gcloud auth application-default login"


def test_a_google_that_is_busy_is_queried_again(on_gcs: OnGcs) -> None:
    on_gcs.put("k", b"1")
    on_gcs.store.busy = 2
    assert bucket.bucket_of(ON_GCP).read("k") == b"1"
    assert on_gcs.store.busy == 0


def test_without_a_network_it_reports_so(on_gcs: OnGcs) -> None:
    kept = bucket.bucket_of(ON_GCP)
    gone = replace(kept.store.client, storage="http://127.0.0.1:9/")  # type: ignore[attr-defined]
    with outlasting(0), pytest.raises(RailheadError, match="Google call failed: "):
        replace(kept, store=replace(kept.store, client=gone)).empty()  # type: ignore[type-var]
