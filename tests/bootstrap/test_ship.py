"""Results in a bucket: against a server that answers as S3, and a stand-in for Google's library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bootstrap import bucket, record, whereabouts
from bootstrap.cloud import boto
from bootstrap.errors import RailheadError, UsageError
from bootstrap.inventory import Host, Inventory
from bootstrap.remote.manifest import manifest
from bootstrap.run import Run

moto = pytest.importorskip("moto.server")
SHIP = Path(__file__).parents[2] / "bootstrap/remote/ship.py"
REGION = "us-east-1"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of an S3 that has the bucket `results-b`, versioned as a stack's is."""
    server = moto.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    words = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_DEFAULT_REGION": REGION}
    words |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "NO_PROXY": "127.0.0.1"}
    for name, value in words.items():
        monkeypatch.setenv(name, value)
    import boto3

    reset = f"http://127.0.0.1:{port}/moto-api/reset"  # its state outlives the server
    urllib.request.urlopen(urllib.request.Request(reset, method="POST")).close()
    client = boto3.client("s3")
    client.create_bucket(Bucket="results-b")
    client.put_bucket_versioning(Bucket="results-b", VersioningConfiguration={"Status": "Enabled"})
    yield client
    server.stop()


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
        "work/not-asked-for": "x",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "results/manifest.json").write_text(json.dumps(manifest(str(folder))))
    return folder


def ship(
    folder: Path, url: str = "s3://results-b/runs/r1", *names: str
) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", str(SHIP), str(folder), url, *names]
    return subprocess.run(argv, capture_output=True, text=True, env=os.environ)


def keys(s3: Any) -> list[str]:
    return [found["Key"] for found in s3.list_objects_v2(Bucket="results-b").get("Contents", [])]


WANTED = ["logs/rank-0.log", "manifest.json", "outputs/a b/m\u00f6del.bin", "outputs/empty"]
WANTED += ["result.json", "run.json"]


def test_all_results_are_in_the_bucket_as_they_would_lie_here(s3: Any, run: Path) -> None:
    done = ship(run)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"] == 5
    assert keys(s3) == [f"runs/r1/{name}" for name in WANTED]


def test_a_file_of_its_own_goes_without_the_rest(s3: Any, run: Path) -> None:
    assert ship(run, "s3://results-b/runs/r1", "state.json").returncode == 0
    assert keys(s3) == ["runs/r1/state.json"]


def test_a_file_that_changed_since_is_no_result_and_there_is_no_manifest(
    s3: Any, run: Path
) -> None:
    (run / "work/empty").write_text("not empty any more")
    done = ship(run)
    assert done.returncode and "work/empty has changed" in done.stderr
    assert "runs/r1/manifest.json" not in keys(s3)


def test_a_bucket_that_is_not_there_is_an_error_with_its_name(s3: Any, run: Path) -> None:
    done = ship(run, "s3://results-other/runs/r1")
    assert done.returncode and "NoSuchBucket" in done.stderr


OURS = Inventory(
    "dev", (Host("m1", "192.0.2.1"),), cloud="aws", region=REGION, bucket="s3://results-b"
)


def test_what_was_shipped_comes_from_the_bucket_when_the_chief_does_not_run(
    s3: Any, run: Path, tmp_path: Path
) -> None:
    here = Run("r1", tmp_path / "results" / "r1")
    record.save_run({"run_id": "r1", "cluster": "dev"}, here.results)
    with pytest.raises(UsageError, match="they are only on m1, which does not run"):
        whereabouts.fetch(OURS, here)
    assert "results only on m1" in whereabouts.tell(OURS, None)
    ship(run)
    assert "results in s3://results-b/runs/r1: fab fetch" in whereabouts.tell(OURS, "r1")
    assert whereabouts.fetch(OURS, here) == {"state": "succeeded"}
    assert (here.results / "outputs/a b/m\u00f6del.bin").read_text() == "weights"
    assert "succeeded; results fetched to" in whereabouts.tell(OURS, None)


def test_an_object_that_is_not_what_was_shipped_is_told(s3: Any, run: Path, tmp_path: Path) -> None:
    ship(run)
    s3.put_object(Bucket="results-b", Key="runs/r1/outputs/empty", Body=b"something")
    with pytest.raises(RailheadError, match="another content.*: work/empty"):
        whereabouts.fetch(OURS, Run("r1", tmp_path / "results"))


def test_a_manifest_leads_nowhere_else(s3: Any, tmp_path: Path) -> None:
    files = [{"path": "../../evil", "bytes": 1, "sha256": ""}]
    body = json.dumps({"files": files}).encode()
    s3.put_object(Bucket="results-b", Key="runs/r1/manifest.json", Body=body)
    with pytest.raises(RailheadError, match="no result"):
        whereabouts.fetch(OURS, Run("r1", tmp_path / "results"))


def test_a_bucket_that_cannot_be_read_from_here_says_so(tmp_path: Path) -> None:
    record.save_run({"run_id": "r1", "cluster": "dev"}, tmp_path)
    google = replace(OURS, bucket="gs://results-b", cloud="gcp")
    assert "cannot be read from here" in whereabouts.tell(google, None)
    with pytest.raises(UsageError, match="cannot be read from here"):
        whereabouts.fetch(google, Run("r1", tmp_path))


def test_a_bucket_is_emptied_of_old_versions_too(s3: Any, run: Path) -> None:
    ship(run)
    ship(run)
    s3.delete_object(Bucket="results-b", Key="runs/r1/run.json")
    assert bucket.Bucket(boto.asker(REGION), "results-b").empty() == 2 * 6 + 1
    s3.delete_bucket(Bucket="results-b")


GOOGLE = """
import json, os, pathlib
class Blob:
    def __init__(self, name):
        self.name, self.metadata, self.size = name, None, None
    def upload_from_filename(self, path, checksum):
        assert checksum == "crc32c"
        data = pathlib.Path(path).read_bytes()
        self.size = len(data) - ("short" in os.environ.get("FAULT", ""))
        with open(os.environ["STORE"], "a") as file:
            file.write(json.dumps([self.name, len(data), self.metadata]) + "\\n")
class Client:
    def bucket(self, name):
        assert name == "results-b"
        return self
    def blob(self, name):
        return Blob(name)
"""


@pytest.mark.parametrize("fault", ["", "short"])
def test_google_s_library_is_asked_to_compare_and_the_manifest_comes_last(
    run: Path, tmp_path: Path, fault: str
) -> None:
    """With a stand-in of google.cloud.storage: what it is asked, not what Google would say."""
    package = tmp_path / "lib/google/cloud"
    package.mkdir(parents=True)
    (package / "storage.py").write_text(GOOGLE)
    code = f"import sys; sys.path[:0] = [{str(tmp_path / 'lib')!r}, {str(SHIP.parent)!r}]\n"
    code += "import ship; ship.main(*sys.argv[1:])"
    argv = [sys.executable, "-S", "-c", code, str(run), "gs://results-b/runs/r1"]
    store = tmp_path / "store"
    environment = {**os.environ, "STORE": str(store), "FAULT": fault}
    done = subprocess.run(argv, capture_output=True, text=True, env=environment)
    told = [json.loads(line) for line in store.read_text().splitlines()]
    if fault:
        assert "another size" in done.stderr and len(told) == 1
        return
    assert done.returncode == 0, done.stderr
    assert sorted(name for name, _, _ in told) == [f"runs/r1/{name}" for name in WANTED]
    assert told[-1][0] == "runs/r1/manifest.json" and all(m["sha256"] for _, _, m in told)
