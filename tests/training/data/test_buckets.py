"""The built-in training and the documented reader, with data in a real S3 server."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from standins.stores.object_stores import S3

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1000)]  # the first test waits for all of it


@pytest.fixture(scope="module")
def outcome(
    s3_store: S3, runtime_python: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What in_bucket.py reports; `kept` are the files in the cache of its home."""
    folder = tmp_path_factory.mktemp("bucket")
    s3_store.make_bucket("training")
    (folder / "reader.py").write_text((ROOT / "examples/streaming_reader.py").read_text())
    (folder / "guest.json").write_text(json.dumps(s3_store.guest))
    environment = {
        **os.environ,
        **s3_store.environ,
        "HOME": str(folder / "home"),
        "PYTHONPATH": str(ROOT),
        "CUDA_VISIBLE_DEVICES": "-1",
    }
    script = Path(__file__).with_name("in_bucket.py")
    uri = s3_store.uri("training", "shards")
    argv = [runtime_python, str(script), uri, str(folder)]
    process = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=900)
    assert process.returncode == 0, process.stderr[-3000:]
    document: dict[str, Any] = json.loads((folder / "outcome.json").read_text())
    kept = [path.name for path in (folder / "home/.railhead/data").glob("*/*.tfrecord")]
    return {**document, "kept": kept}


def test_data_is_sharded_into_a_bucket(outcome: dict[str, Any]) -> None:
    code, text = outcome["sharded"]
    assert code == 0 and "500 records in 8 shards" in text


def test_file_and_stream_of_a_bucket_train_the_same(outcome: dict[str, Any]) -> None:
    assert outcome["file"] == pytest.approx(outcome["stream"], rel=1e-4)
    assert len(outcome["kept"]) == 8


def test_an_index_elsewhere_in_the_bucket_trains_the_same_in_both_modes(
    outcome: dict[str, Any],
) -> None:
    code, text = outcome["indexed"]
    assert code == 0 and "300 records in 2 shards" in text
    assert outcome["file of index"] == pytest.approx(outcome["stream of index"], rel=1e-4)


def test_the_documented_reader_reads_every_epoch(outcome: dict[str, Any]) -> None:
    """The example has the reader of docs/data.md, and trains with it."""
    assert outcome["read"] == [500, 500]
    assert outcome["trained"]["accuracy"][0] > 0.5


def test_a_bucket_without_rights_ends_a_training_with_one_line(outcome: dict[str, Any]) -> None:
    code, text = outcome["refused"]
    assert code == 1 and "`data_buckets`" in text
    assert "Traceback" not in text
