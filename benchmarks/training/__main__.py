"""How fast `training/` is, against Keras and against itself. Run it with a runtime's python:

    PYTHON -m benchmarks.training fit|shards|checkpoint|accuracy [--rounds 5] [--model mnist-cnn]

All sides of a ratio are measured in one process, in turns; the median of the rounds counts. Exit
code 1: a limit is not kept.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"


def main() -> int:
    """Run one benchmark; returns 0 if its limit is kept."""
    parser = argparse.ArgumentParser(prog="benchmarks.training")
    parser.add_argument("what", choices=("fit", "shards", "checkpoint", "accuracy"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", default="mnist-cnn", choices=("mnist-cnn", "resnet50"))
    parser.add_argument("--xla", default="off", choices=("off", "on"))
    parser.add_argument("--data", type=Path, help="accuracy: a folder of IDX files")
    parser.add_argument("--epochs", type=int, default=3, help="accuracy: at most 5")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} at the start", flush=True)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        kept = run(options, Path(name))
    print(f"load {os.getloadavg()[0]:.1f} at the end; {'kept' if kept else 'LIMIT NOT KEPT'}")
    return int(not kept)


def run(options: argparse.Namespace, folder: Path) -> bool:
    """Whether the limit of the chosen benchmark is kept."""
    if options.what == "fit":
        from benchmarks.training import fit

        return fit.run(options.model, options.xla, options.rounds, folder)
    if options.what == "shards":
        from benchmarks.training import shards

        return shards.run(options.rounds, folder)
    if options.what == "accuracy":
        from benchmarks.training import accuracy

        return accuracy.run(options.data, options.epochs, folder)
    from benchmarks.training import checkpoint

    return checkpoint.run(options.model, options.rounds, folder)


if __name__ == "__main__":
    sys.exit(main())
