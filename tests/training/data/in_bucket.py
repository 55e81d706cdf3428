"""What people do with data in a bucket, in one process of a runtime: run by test_buckets.py.

    in_bucket.py URI FOLDER    outcome.json in the folder says what came of it

The folder has reader.py, examples/streaming_reader.py; guest.json, an environment without rights.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[2]))
from samples.files import example, written

from training.__main__ import main as training
from training.data.__main__ import main as data_command
from training.data.store import open_store

SETTINGS = ["data=numpy", "model=mlp", "epochs=1", "batch_size=32", "export=off"]
SETTINGS += ["checkpoint_minutes=0"]


def called(command: Any, *arguments: str) -> tuple[int, str]:
    """The exit code of a command, and what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = command(list(arguments))
    return code, out.getvalue()


def shard(folder: Path, uri: str) -> tuple[int, str]:
    """Some numbers as shards in the bucket."""
    x = np.random.RandomState(0).rand(500, 8)
    source = folder / "data.npz"
    np.savez(source, x=x.astype("float32"), y=(x.sum(1) > 4).astype("int64"))
    return called(data_command, "shard", str(source), uri, "--shards", "8", "--data", "numpy")


def train(folder: Path, *data: str) -> list[float]:
    """The losses of a training."""
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    sources = [word for source in data for word in ("--data", source)]
    code, text = called(training, "--results", str(folder), *sources, *settings)
    assert code == 0, text
    records = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    epochs = [record for record in records if record["kind"] == "epoch"]
    return [epoch[name] for epoch in epochs for name in ("loss", "val_loss")]


def read(folder: Path, uri: str) -> tuple[list[int], dict[str, list[float]]]:
    """How many records the example reads in each of two epochs, and the history of its training on
    the next ten."""
    stream = folder / "records"
    stream.mkdir()
    command = [sys.executable, "-m", "training.data", "stream", uri, str(stream)]
    reader: dict[str, Any] = {"__name__": "reader"}
    exec((folder / "reader.py").read_text(), reader)
    feeder = subprocess.Popen(command)
    try:
        dataset = reader["records"](str(stream))
        counts = [sum(1 for _ in dataset) for _ in range(2)]
        with contextlib.redirect_stdout(io.StringIO()):
            return counts, reader["main"](str(stream), columns=8, epochs=10)
    finally:
        feeder.kill()
        feeder.wait()


def index(folder: Path, uri: str) -> tuple[int, str]:
    """TFRecord files in the bucket as somebody else wrote them, and their index in another place
    of it."""
    theirs, store = f"{uri}-theirs", open_store(f"{uri}-theirs")
    values = np.random.RandomState(0).rand(300, 8)
    records = [example(x=x.tolist(), y=[int(x.sum() > 4)]) for x in values]
    for number, some in enumerate((records[:200], records[200:])):
        path = written(folder / "theirs" / f"part-{number:05d}-of-00002", some)
        store.put(path.name, path)
    settings = ("--set", "input_feature=x", "--set", "label_feature=y")
    return called(data_command, "index", theirs, "--to", f"{uri}-index", *settings)


def main(uri: str, folder: Path) -> None:
    """Do all of it, one after the other."""
    outcome: dict[str, Any] = {"sharded": shard(folder, uri)}
    for mode in ("file", "stream"):
        outcome[mode] = train(folder / mode, f"train={uri},{mode}")
    outcome["indexed"] = index(folder, uri)
    for mode in ("file", "stream"):
        outcome[f"{mode} of index"] = train(folder / f"{mode}-i", f"train={uri}-index,{mode}")
    outcome["read"], outcome["trained"] = read(folder, uri)
    os.environ.update(json.loads((folder / "guest.json").read_text()))
    outcome["refused"] = called(
        training, "--results", str(folder / "refused"), "--data", f"train={uri},stream"
    )
    (folder / "outcome.json").write_text(json.dumps(outcome))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
