"""All of Horovod's interface with Keras 3: python -m tests.horovod_campaign --seed 0.

A seed is a version of Keras: that of the runtime, and the last one for Python 3.10. The public
examples are those of RAILHEAD_HOROVOD_EXAMPLES, a folder; without it they are cloned.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from bootstrap.provision.uv import ENVIRONMENT

ROOT = Path(__file__).resolve().parents[1]
TEST = "tests/bootstrap/remote/keras_patches/test_horovod.py"
LOCK = ROOT / "locks/runtime-tf2.18-cpu.txt"


def main() -> int:
    """Exit code 1 if a test failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.horovod_campaign", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    seed: int = parser.parse_args().seed
    path = str(oldest_keras()) if seed % 2 else ""
    environment = {**os.environ, "RAILHEAD_KERAS_CAMPAIGN": "1", "RAILHEAD_KERAS_PATH": path}
    argv = [sys.executable, "-m", "pytest", "-q", TEST]
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


if __name__ == "__main__":
    sys.exit(main())
