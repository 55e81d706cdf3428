"""The built-in training and the documented reader, with data in a real S3 server."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from standins.object_stores import S3

ROOT = Path(__file__).parents[2]
NUMBERS = itertools.count()
SETTINGS = ["epochs=1", "batch_size=32", "export=off", "checkpoint_minutes=0"]

pytestmark = pytest.mark.slow


@pytest.fixture
def s3(s3_store: S3, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """A function from a prefix to a URI in a new bucket."""
    for name, value in {**s3_store.environ, "PYTHONPATH": str(ROOT)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    bucket = f"training-{next(NUMBERS)}"
    s3_store.make_bucket(bucket)
    return lambda prefix: s3_store.uri(bucket, prefix)


def call(python: str, *arguments: str) -> str:
    """The output of a command, which must succeed."""
    done = subprocess.run(
        [python, *arguments], capture_output=True, text=True, timeout=280, cwd=Path.cwd()
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture
def shards(s3: Callable[[str], str], runtime_python: str, tmp_path: Path) -> str:
    """The URI of some numbers as shards."""
    make = "import numpy as n, sys; r = n.random.RandomState(0); x = r.rand(500, 8); "
    make += "n.savez(sys.argv[1], x=x.astype('float32'), y=(x.sum(1) > 4).astype('int64'))"
    call(runtime_python, "-c", make, str(tmp_path / "data.npz"))
    source, uri = str(tmp_path / "data.npz"), s3("shards")
    shard = ("-m", "training.data", "shard", source, uri, "--shards", "8", "--data", "numpy")
    assert "500 records in 8 shards" in call(runtime_python, *shard)
    return uri


def train(python: str, folder: Path, *data: str) -> list[float]:
    """The losses of a training."""
    settings = [
        part for setting in ("data=numpy", "model=mlp", *SETTINGS) for part in ("--set", setting)
    ]
    given = [part for one in data for part in ("--data", one)]
    call(python, "-m", "training", "--results", str(folder), *given, *settings)
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    epochs = [one for one in map(json.loads, lines) if one["kind"] == "epoch"]
    return [one[name] for one in epochs for name in ("loss", "val_loss")]


def test_file_and_stream_of_a_bucket_train_the_same(
    shards: str, runtime_python: str, tmp_path: Path
) -> None:
    file = train(runtime_python, tmp_path / "file", f"train={shards}")
    stream = train(runtime_python, tmp_path / "stream", f"train={shards},stream")
    assert file == pytest.approx(stream, rel=1e-4)
    kept = [path.name for path in (Path.home() / ".railhead/data").glob("*/*.tfrecord")]
    assert len(kept) == 8


def test_the_documented_reader_reads_every_epoch(
    shards: str, runtime_python: str, tmp_path: Path
) -> None:
    page = (ROOT / "docs/data.md").read_text()
    (reader,) = (
        code
        for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        if "def segments" in code
    )
    program = tmp_path / "reader.py"
    program.write_text(
        reader
        + (
            '\ndataset = records(os.environ["RAILHEAD_DATA_TRAIN"])\n'
            "print([sum(1 for _ in dataset) for epoch in range(2)])\n"
        )
    )
    folder = tmp_path / "stream"
    folder.mkdir()
    command = [sys.executable, "-m", "training.data", "stream", shards, str(folder)]
    feeder = subprocess.Popen(command)
    environ = {**os.environ, "RAILHEAD_DATA_TRAIN": str(folder)}
    try:
        done = subprocess.run(
            [runtime_python, str(program)], env=environ, capture_output=True, text=True, timeout=120
        )
    finally:
        feeder.kill()
        feeder.wait()
    assert done.stdout.strip() == "[500, 500]", done.stderr[-3000:]


def test_a_bucket_without_rights_ends_a_training_with_one_line(
    s3_store: S3, shards: str, runtime_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_store.guest.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run(
        [runtime_python, "-m", "training", "--data", f"train={shards},stream"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1 and "`data_buckets`" in done.stderr
    assert "Traceback" not in done.stderr
