"""Random faults in a training on two local hosts: python -m campaigns.survive --seed 7.

Each seed is five runs of `digits` with one to three faults at random moments (tests/e2e/faults.py).
A run is correct if it succeeds by itself, its losses are those of a run without faults, each step
counts once, and nothing is left on any host; after the death of its supervisor or of its chief, if
it ends on all hosts, and the commands that are printed, typed as they are, continue it. With
--light: twenty runs of a program that counts, and that logs beside its checkpoint or saves it in a
thread: five with a folder on a full disk, five whose bucket is away, two of them with a standby;
no step is missing or twice.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Exit code 1 if the case is not correct."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.survive", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--light", action="store_true", help="without TensorFlow")
    options = parser.parse_args()
    # Disks that are full, and another log of the kernel, are mounts that nobody else sees.
    command = ["unshare", "--mount", "--"] if os.geteuid() == 0 else []
    command += [sys.executable, "-m", "pytest", "-q", "-s", "tests/e2e/survive.py"]
    command += ["-k", "counts" if options.light else "training"]
    environment = {**os.environ, "RAILHEAD_SURVIVE_SEED": str(options.seed)}
    return subprocess.run(command, cwd=Path(__file__).parents[1], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
