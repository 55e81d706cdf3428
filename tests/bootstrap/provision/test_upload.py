"""Results on their way into a bucket, by upload/upload.py.

S3 is a real server. Google Cloud Storage is a stand-in that holds every call against Google's own
document; what asks it runs in the environment of locks/bucket.txt, made as on a chief.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from standins.runs.manifests import manifest

from bootstrap.host.upload import upload
from bootstrap.plan.runtimes import LOCKS
from bootstrap.provision import uv

pytest.importorskip("googleapiclient", reason="scripts/setup --dev installs it")

from standins import programs  # noqa: E402
from standins.gcp.discovery import DOCUMENTS  # noqa: E402
from standins.gcp.storage import Store, flipped  # noqa: E402
from standins.relay import Relay  # noqa: E402
from standins.stores import object_stores  # noqa: E402


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder that has ended."""
    folder = tmp_path / "r1"
    files = {
        "run.json": "{}",
        "state.json": '{"state": "succeeded"}',
        "results/result.json": '{"state": "succeeded"}',
        "results/outputs.json": '{"files": [["a b/m\u00f6del.bin", 7], ["empty", 0]]}',
        "results/.keep": "",
        "logs/rank-0.log": "hello\n",
        "logs/supervisor.log": "",
        "work/a b/m\u00f6del.bin": "weights",
        "work/empty": "",
        "work/not-requested": "x",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "results/manifest.json").write_text(json.dumps(manifest(str(folder))))
    return folder


def archive_in(folder: Path) -> str:
    """The programs, put into this folder."""
    return str(programs.place(folder))


S3 = "s3://results-b/runs/r1"


def run_upload(
    folder: Path, url: str = S3, *names: str, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    argv = [python, "-I", archive_in(folder), "upload.upload", str(folder), url, *names]
    return subprocess.run(argv, capture_output=True, text=True, env=os.environ)


def keys(s3: Any) -> list[str]:
    return [item["Key"] for item in s3.list_objects_v2(Bucket="results-b").get("Contents", [])]


WANTED = ["logs/rank-0.log", "manifest.json", "outputs/a b/m\u00f6del.bin", "outputs/empty"]
WANTED += ["result.json", "run.json"]


def test_all_results_and_folders_are_in_the_bucket_with_their_local_names(
    s3: Any, run: Path
) -> None:
    for name in ("results/model/variables/v.data", "logs/trace/x"):
        (run / name).parent.mkdir(parents=True)
        (run / name).write_text(name)
    (run / "results/latest").symlink_to("model")
    os.mkfifo(run / "results/pipe")
    (run / "results/manifest.json").write_text(json.dumps(manifest(str(run))))
    process = run_upload(run)
    assert process.returncode == 0, process.stderr
    trees = ["model/variables/v.data", "logs/trace/x"]
    assert keys(s3) == sorted(f"runs/r1/{name}" for name in [*WANTED, *trees])
    for key in keys(s3):  # each came with its hash, which S3 has compared
        answer = s3.get_object(Bucket="results-b", Key=key, ChecksumMode="ENABLED")
        digest = sha256(answer["Body"].read()).digest()
        assert base64.b64decode(answer["ChecksumSHA256"]) == digest, key


def test_a_file_of_its_own_goes_without_the_rest(s3: Any, run: Path) -> None:
    upload.main(str(run), S3, "state.json")
    assert keys(s3) == ["runs/r1/state.json"]


def test_a_file_that_changed_since_is_not_a_result_and_there_is_no_manifest(
    s3: Any, run: Path
) -> None:
    (run / "work/empty").write_text("not empty any more")
    with pytest.raises(OSError, match="work/empty has changed"):
        upload.main(str(run), S3)
    assert "runs/r1/manifest.json" not in keys(s3)


def test_a_file_that_became_a_pipe_blocks_nothing(s3: Any, run: Path) -> None:
    (run / "work/empty").unlink()
    os.mkfifo(run / "work/empty")
    with pytest.raises(OSError, match="work/empty is not a regular file"):
        upload.main(str(run), S3)


def test_a_bucket_that_is_not_there_is_an_error_with_its_name(s3: Any, run: Path) -> None:
    process = run_upload(run, "s3://results-other/runs/r1")
    assert process.returncode and "NoSuchBucket" in process.stderr


def test_one_bit_flipped_on_its_way_to_s3_is_not_a_result(
    s3_store: object_stores.S3, s3: Any, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Relay(s3_store.endpoint, replaces=(b"weights", flipped(b"weights"))) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", relay.endpoint)
        with pytest.raises(Exception, match="BadDigest|ContentSHA256Mismatch"):
            upload.main(str(run), S3)
    assert "runs/r1/manifest.json" not in keys(s3)


# --- Google Cloud Storage


@pytest.fixture(scope="session")
def python(shared_caches: Path) -> str:
    """The python of an environment with what a chief has to write into a bucket."""
    lock = LOCKS / "bucket.txt"
    digest = sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:16]
    made = shared_caches / "railhead" / "test-bucket" / digest
    if not (made / ".ok").exists():
        parameters = {**os.environ, **uv.ENVIRONMENT}
        venv = [uv.local_uv(), "venv", "--quiet", "--allow-existing", "--python", sys.executable]
        subprocess.run([*venv, str(made)], check=True, env=parameters)
        sync = [uv.local_uv(), "pip", "sync", "--quiet", "--require-hashes", "--python"]
        subprocess.run([*sync, str(made / "bin/python"), str(lock)], check=True, env=parameters)
        (made / ".ok").touch()
    return str(made / "bin/python")


@pytest.fixture
def gcs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A Cloud Storage that has the bucket `results-b`; the library finds it by its own variable."""
    store = Store({"results-b": []})
    server = store.serve()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.base)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield store
    server.shutdown()
    server.server_close()
    assert not store.wrong, store.wrong


GS = "gs://results-b/runs/r1"


def test_all_results_are_in_google_s_bucket_and_the_manifest_came_last(
    gcs: Store, run: Path, python: str
) -> None:
    process = run_upload(run, GS, python=python)
    assert process.returncode == 0, process.stderr
    assert gcs.names("results-b") == [f"runs/r1/{name}" for name in WANTED]
    assert gcs.buckets["results-b"][-1]["name"] == "runs/r1/manifest.json"
    for item in gcs.buckets["results-b"]:
        assert item["metadata"] == {"sha256": sha256(item["data"]).hexdigest()}
    weights = gcs.live("results-b", "runs/r1/outputs/a b/m\u00f6del.bin")
    assert weights[0]["data"] == b"weights"


def test_a_file_of_its_own_goes_to_google_without_the_rest_also_when_it_is_busy_at_first(
    gcs: Store, run: Path, python: str
) -> None:
    gcs.busy = 1
    assert run_upload(run, GS, "state.json", python=python).returncode == 0
    assert gcs.names("results-b") == ["runs/r1/state.json"]


def test_one_bit_flipped_on_its_way_to_google_is_not_a_result(
    gcs: Store, run: Path, python: str
) -> None:
    gcs.flips = True
    process = run_upload(run, GS, python=python)
    assert process.returncode and "MD5 hash does not match" in process.stderr, process.stderr
    assert "runs/r1/manifest.json" not in gcs.names("results-b")


def test_a_bucket_of_google_that_is_not_there_is_an_error(
    gcs: Store, run: Path, python: str
) -> None:
    process = run_upload(run, "gs://results-other/runs/r1", python=python)
    assert process.returncode and "The specified bucket does not exist" in process.stderr


def test_the_stand_in_understands_the_batches_of_google_s_library(gcs: Store) -> None:
    """Ours were written by Google's page; its own library reads and writes the same."""
    import httplib2  # type: ignore[import-untyped]
    from googleapiclient import discovery  # type: ignore[import-untyped]

    for name in ("a b/\u00e4?#", "k", "k", "held"):
        gcs.put("results-b", name, b"1")
    gcs.page, gcs.held = 3, {"held": "under a hold"}
    described = json.loads((DOCUMENTS / "storage.v1.json").read_text())
    http = httplib2.Http(proxy_info=None)
    service = discovery.build_from_document({**described, "rootUrl": f"{gcs.base}/"}, http=http)
    outcomes: dict[str, int] = {}
    batch = service.new_batch_http_request(
        lambda name, _, refused: outcomes.update({name: int(refused.resp.status) if refused else 0})
    )
    listing = service.objects().list(bucket="results-b", versions=True)
    while listing:
        page = listing.execute()
        for item in page["items"]:
            version = {"object": item["name"], "generation": item["generation"]}
            batch.add(service.objects().delete(bucket="results-b", **version))
        listing = service.objects().list_next(listing, page)
    batch.execute()
    assert sorted(outcomes.values()) == [0, 0, 0, 403]
    assert gcs.names("results-b") == ["held"] and gcs.batches == [4]


def test_checkpoints_go_to_google_and_come_back(
    gcs_store: object_stores.Gcs, run: Path, python: str, tmp_path: Path
) -> None:
    gcs_store.make_bucket("checkpoints-b")
    env = {**os.environ, **gcs_store.environ, "NO_PROXY": "127.0.0.1"}
    url = "gs://checkpoints-b/runs/r1"
    files = {f"step-00000010/{name}": name for name in ("state.npz", "manifest.json")}
    for name, text in files.items():
        path = run / "checkpoints" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    sender = [python, "-I", archive_in(tmp_path), "upload.live_upload", str(run), url, "once"]
    process = subprocess.run(sender, capture_output=True, text=True, env=env)
    assert process.returncode == 0, process.stderr
    back = tmp_path / "back"
    restore = [python, "-I", archive_in(tmp_path), "upload.restore_checkpoints", url, str(back)]
    process = subprocess.run(restore, capture_output=True, text=True, env=env)
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)["damaged"] == []
    assert {name: (back / name).read_text() for name in files} == files
