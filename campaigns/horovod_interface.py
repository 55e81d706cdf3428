"""All of Horovod's interface with Keras 3: python -m campaigns.horovod_interface --seed 0.

A seed is a version of Keras on TensorFlow 2.18, that of the runtime (0) and the last one for Python
3.10 (1), or TensorFlow 2.21 (2). Horovod's examples are those in RAILHEAD_PROGRAMS, as for the
public programs; without it they are cloned.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from e2e import kept_environments

from bootstrap.provision.uv import ENVIRONMENT

ROOT = Path(__file__).resolve().parents[1]
TEST = "tests/keras_patches/test_horovod.py"
LOCK = ROOT / "locks/runtime-tf2.18-cpu.txt"


def main() -> int:
    """Exit code 1 if a test failed."""
    parser = argparse.ArgumentParser(
        prog="python -m campaigns.horovod_interface", description=__doc__
    )
    parser.add_argument("--seed", type=int, required=True)
    seed: int = parser.parse_args().seed
    environment = {**os.environ, "RAILHEAD_KERAS_CAMPAIGN": "1"}
    if seed % 3 == 1:
        environment["RAILHEAD_KERAS_PATH"] = str(oldest_keras())
    if seed % 3 == 2:
        environment["RAILHEAD_TEST_PYTHON"] = str(newest_python())
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:time_budgets", TEST]
    return subprocess.run(argv, cwd=ROOT, env=environment).returncode


def oldest_keras() -> Path:
    """A folder with the oldest Keras of the runtime's lock, alone."""
    version = min(re.findall(r"^keras==(3\.\d+\.\d+)", LOCK.read_text(), re.M))
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = caches / f"railhead/keras-campaign/keras-{version}"
    if not folder.exists():
        words = ("pip", "install", "--quiet", "--no-deps", "--target", str(folder))
        uv = Path(sys.executable).parent / "uv"
        environment = {**os.environ, **ENVIRONMENT}
        subprocess.run([str(uv), *words, f"keras=={version}"], env=environment, check=True)
    return folder


def newest_python() -> Path:
    """The python of the newest TensorFlow's environment, which the tests keep."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for digest in kept_environments.digests_of(kept_environments.NEWEST):
        python = caches / kept_environments.FOLDER / digest / "bin/python"
        if python.exists():
            return python
    raise SystemExit(
        "no environment of the newest TensorFlow: pytest tests/e2e/training/test_runtimes.py"
    )


if __name__ == "__main__":
    sys.exit(main())
