"""Data by name on two local hosts: the built-in training and scripts, folders and buckets."""

from __future__ import annotations

import contextlib
import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from e2e.local_hosts import Operator, json_lines
from e2e.scripts import JOIN
from standins.stores.object_stores import S3, Gcs

from training.data.records import masked_crc

# Writes down what each rank found, on every host; rank 0 collects nothing: it is printed.
REPORT = (
    JOIN
    + """
found = {}
for name, value in sorted(os.environ.items()):
    if name.startswith("RAILHEAD_DATA_"):
        folder = pathlib.Path(value)
        found[name] = {p.relative_to(folder).as_posix(): p.read_text()
                       for p in sorted(folder.rglob("*")) if p.is_file()}
print("FOUND", json.dumps(found))
"""
)


def found_by(operator: Operator, rank: int) -> dict[str, Any]:
    """What the script of REPORT found on a rank of the last run."""
    log = (operator.last / f"logs/rank-{rank}.log").read_text()
    line = next(line for line in log.splitlines() if "FOUND " in line)
    found: dict[str, Any] = json.loads(line.partition("FOUND ")[2])
    return found


def write_files(operator: Operator, folder: str, count: int) -> None:
    for number in range(count):
        operator.write(f"{folder}/part-{number}.txt", f"{folder} {number} {os.urandom(4).hex()}")


def names(numbers: list[int]) -> list[str]:
    return [f"part-{number}.txt" for number in numbers]


def test_a_script_reads_each_name_replicated_sharded_or_by_links(
    operator: Operator, tmp_path: Path
) -> None:
    write_files(operator, "all", 3)
    write_files(operator, "parts", 5)
    (tmp_path / "on-hosts").mkdir()
    for number in range(3):
        (tmp_path / f"on-hosts/part-{number}.txt").write_text(str(number))
    operator.write("code/train.py", REPORT)
    data = ["--data", "whole=all", "--data", "mine=parts,shard", "--data", "one=all/part-1.txt"]
    data += ["--data", f"a=host:{tmp_path}/on-hosts"]
    data += ["--data", f"b=host:{tmp_path}/on-hosts,shard"]
    operator.fab("train", "--script", "code/train.py", *data).ended(0)
    ranks = [found_by(operator, rank) for rank in (0, 1)]
    assert [sorted(r["RAILHEAD_DATA_WHOLE"]) for r in ranks] == [names([0, 1, 2])] * 2
    assert [sorted(r["RAILHEAD_DATA_MINE"]) for r in ranks] == [names([0, 2, 4]), names([1, 3])]
    assert [sorted(r["RAILHEAD_DATA_ONE"]) for r in ranks] == [names([1])] * 2
    assert ranks[1]["RAILHEAD_DATA_MINE"]["part-3.txt"].startswith("parts 3 ")
    assert [sorted(r["RAILHEAD_DATA_A"]) for r in ranks] == [names([0, 1, 2])] * 2
    assert [sorted(r["RAILHEAD_DATA_B"]) for r in ranks] == [names([0, 2]), names([1])]


SAGEMAKER = (
    JOIN
    + """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--model_dir")
parser.add_argument("--train", default=os.environ["SM_CHANNEL_TRAIN"])
args = parser.parse_args()
assert args.model_dir == os.environ["SM_MODEL_DIR"]
assert json.loads(os.environ["SM_HPS"])["epochs"] == 3
pathlib.Path(args.model_dir, "saved.txt").write_text(os.environ["SM_CURRENT_HOST"])
open("/opt/ml/input/data/train/part-0.txt")
"""
)


def test_a_path_of_sagemaker_that_is_written_into_a_script_gets_a_hint(operator: Operator) -> None:
    write_files(operator, "mine", 2)
    operator.write("code/train.py", SAGEMAKER)
    options = ("--sagemaker", "--args=--epochs 3", "--data", "train=mine")
    done = operator.fab("train", "--script", "code/train.py", *options)
    done.ended(1, "/opt/ml/input/data/train is a folder of SageMaker", "SM_CHANNEL_TRAIN")
    assert (operator.last / "model/saved.txt").read_text() == "h1"


# --- Buckets


@pytest.fixture
def options_of_s3(s3_store: S3) -> tuple[str, ...]:
    """A bucket `data` with five files below `set/`, and the options with which hosts read it."""
    with contextlib.suppress(Exception):  # made by an earlier test
        s3_store.make_bucket("data")
    for number in range(5):
        s3_store.put("data", f"set/part-{number}.txt", f"set {number}".encode())
    secrets = [
        option
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        for option in ("--secret", name)
    ]
    return ("--env", f"AWS_ENDPOINT_URL={s3_store.endpoint}", *secrets)


def test_a_script_reads_buckets_as_files(
    operator: Operator, s3_store: S3, gcs_store: Gcs, options_of_s3: tuple[str, ...]
) -> None:
    with contextlib.suppress(Exception):  # made by an earlier test
        gcs_store.make_bucket("data")
    gcs_store.put("data", "set/part-0.txt", b"of Google")
    operator.write("code/train.py", REPORT)
    data: tuple[str, ...] = ("--data", "whole=s3://data/set", "--data", "mine=s3://data/set,shard")
    data += ("--data", "google=gs://data/set")
    google = [option for pair in gcs_store.environ.items() for option in ("--env", "=".join(pair))]
    command = ("train", "--script", "code/train.py", *data, *options_of_s3, *google)
    first = operator.fab(*command, env=s3_store.environ).ended(0)
    assert "s3://data/set" in first.out and "MB" in first.out
    ranks = [found_by(operator, rank) for rank in (0, 1)]
    assert [sorted(r["RAILHEAD_DATA_WHOLE"]) for r in ranks] == [names([0, 1, 2, 3, 4])] * 2
    assert [sorted(r["RAILHEAD_DATA_MINE"]) for r in ranks] == [names([0, 2, 4]), names([1, 3])]
    assert ranks[1]["RAILHEAD_DATA_MINE"]["part-3.txt"] == "set 3"
    assert [r["RAILHEAD_DATA_GOOGLE"] for r in ranks] == [{"part-0.txt": "of Google"}] * 2
    again = operator.fab(*command, env=s3_store.environ).ended(0)
    assert "0 of 0 MB" not in again.out and "MB/s" not in again.out, "downloaded again"


def test_a_bucket_without_rights_is_named_with_the_key_to_set(
    operator: Operator, s3_store: S3, options_of_s3: tuple[str, ...]
) -> None:
    operator.write("code/train.py", REPORT)
    command = ("train", "--script", "code/train.py", "--data", "x=s3://data/set", *options_of_s3)
    operator.fab(*command, env=s3_store.guest).ended(1, "s3://data/set", "data_buckets", "--secret")


# The reader of docs/data.md, without TensorFlow: counts the bytes of the segments of one epoch.
STREAM = (
    JOIN
    + """
import time
folder, total = pathlib.Path(os.environ["RAILHEAD_DATA_TRAIN"]), 0
while True:
    for path in sorted(folder.glob("[0-9]*"))[:1]:
        kind, size = path.suffix, path.stat().st_size
        assert kind != ".failed", path.read_text()
        path.unlink()
        total += size
        if kind == ".end":
            print("FOUND", json.dumps({"bytes": total, "folder": str(folder)}))
            sys.exit(0)
    time.sleep(0.01)
"""
)


def record(content: bytes) -> bytes:
    """One framed record of a TFRecord file."""
    length = struct.pack("<Q", len(content))
    frames = [struct.pack("<I", masked_crc(data)) for data in (length, content)]
    return length + frames[0] + content + frames[1]


def test_a_script_reads_a_stream_from_memory(
    operator: Operator, s3_store: S3, options_of_s3: tuple[str, ...]
) -> None:
    for number in range(4):
        content = record(bytes([number]) * 1000) * 10
        s3_store.put("data", f"records/part-{number}.tfrecord", content)
    operator.write("code/train.py", STREAM)
    data = ("--data", "train=s3://data/records,shard,stream")
    command = ("train", "--script", "code/train.py", *data, *options_of_s3)
    operator.fab(*command, env=s3_store.environ).ended(0)
    for rank in (0, 1):
        found = found_by(operator, rank)
        assert found["bytes"] == 2 * 10 * 1016
        assert found["folder"].startswith(("/dev/shm/", "/tmp/"))
        assert not Path(found["folder"]).exists(), "the segments are still in memory"
    assert operator.result()["swept"] == {name: {"ended": 0, "left": []} for name in ("h1", "h2")}


def test_the_built_in_training_reads_a_folder_that_is_sent_once_and_a_bucket(
    operator: Operator, s3_store: S3, options_of_s3: tuple[str, ...]
) -> None:
    rows = [f"{i % 7},{i % 3},{(i % 7) > 3:d}" for i in range(200)]
    table = "\n".join(["a,b,label", *rows, ""])
    operator.write("table/train.csv", table)
    s3_store.put("data", "table/validation.csv", table.encode())
    settings = ("--set", "data=csv", "--set", "model=linear", "--set", "epochs=1")
    data = ("--data", "validation=s3://data/table", *options_of_s3)
    train = ("train", "--data", "train=table")
    first = operator.fab(*train, *settings, *data, env=s3_store.environ)
    first.ended(0, ", complete", "succeeded")
    assert "already on all hosts" not in first.out
    entries = {x["name"]: x for x in json.loads((operator.last / "run.json").read_text())["data"]}
    assert entries["train"]["distribution"] is None
    assert len({*entries["train"]["paths"]}) == 1 and len(entries["train"]["paths"]) == 2
    records = json_lines(operator.last / "metrics.jsonl")
    assert [x["epochs"] for x in records if x["kind"] == "epoch"] == [1]
    assert (operator.last / "model.keras").stat().st_size > 1000
    operator.write("code/train.py", REPORT)
    second = operator.fab(*train, "--script", "code/train.py").ended(0, "already on all hosts")
    assert ", complete" not in second.out
    assert found_by(operator, 1) == {"RAILHEAD_DATA_TRAIN": {"train.csv": table}}
