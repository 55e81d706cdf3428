"""Real data on two Horovod ranks, from a folder, shards and a stream. Limit: the held-out accuracy.

The data are IDX files: MNIST where RAILHEAD_MNIST names its folder, else Fashion-MNIST, which
Debian's package dataset-fashion-mnist brings.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

LIMITS = {"mnist": 0.985, "fashion-mnist": 0.88}
FASHION = Path("/usr/share/datasets/fashion-mnist")
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
MPIRUN = ("mpirun", "-np", "2", "--oversubscribe", "--bind-to", "none")


def run(source: Path | None, epochs: int, folder: Path) -> bool:
    """Train from each and print the accuracies; whether all reach the limit."""
    mnist = os.environ.get("RAILHEAD_MNIST")
    preset = "mnist" if mnist else "fashion-mnist"
    place = source or Path(mnist or FASHION)
    splits = shards(preset, place, folder)
    inputs = {
        "folder": [f"train={place}"],
        "shards": [f"{name}={path}" for name, path in splits.items()],
        "stream": [f"{name}=file://{path},stream" for name, path in splits.items()],
    }
    accuracies = [train(preset, name, data, epochs, folder) for name, data in inputs.items()]
    return all(accuracy >= LIMITS[preset] for accuracy in accuracies)


def shards(preset: str, source: Path, folder: Path) -> dict[str, Path]:
    """The training and the test data as shards."""
    folders = {name: folder / f"{name}-shards" for name in ("train", "test")}
    for name, place in folders.items():
        argv = [sys.executable, "-m", "training.data", "shard", str(source), str(place)]
        argv += ["--preset", preset, "--split", name]
        subprocess.run(argv, check=True)
    return folders


def train(preset: str, name: str, data: list[str], epochs: int, folder: Path) -> float:
    """The accuracy on the test data after a training on two ranks."""
    results = folder / f"results-{name}"
    argv = [*MPIRUN, sys.executable, "-m", "training", "--preset", preset]
    argv += ["--strategy", "horovod", "--results", str(results), "--set", f"epochs={epochs}"]
    for item in data:
        argv += ["--data", item]
    begin = time.monotonic()
    subprocess.run(argv, check=True, env={**os.environ, **ROOT})
    evaluation = json.loads((results / "evaluation.json").read_text())
    print(
        f"{preset} from {name}, {epochs} epochs, 2 ranks: accuracy {evaluation['accuracy']:.4f} on "
        f"{evaluation['samples']} {evaluation['split']} samples, limit {LIMITS[preset]}; "
        f"{time.monotonic() - begin:.0f} s",
        flush=True,
    )
    return float(evaluation["accuracy"])
