"""Training from shards against training from memory. Limit: 0.95 of its samples per second."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.training.loop import CASES, compare, epoch, images, settings, training_of

LIMIT = 0.95


def run(rounds: int, folder: Path) -> bool:
    """Measure and print; whether the limit is kept."""
    case = CASES["mnist-cnn"]
    data = images(case, folder)
    sharded = {name: folder / f"{name}-shards" for name in data}
    for name, source in data.items():
        argv = [sys.executable, "-m", "training.data", "shard", str(source), str(sharded[name])]
        subprocess.run([*argv, "--shards", "8", "--set", "data=numpy"], check=True)
    config = settings(case)
    memory = training_of(config, data, folder / "memory")
    from_shards = training_of(config, sharded, folder / "shards")
    print("first: memory, second: shards")
    ratio = compare(epoch(memory), epoch(from_shards), rounds, case.samples)
    print(f"shards / memory {ratio:.2f}, limit {LIMIT}")
    return ratio >= LIMIT
