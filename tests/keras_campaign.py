"""All cases of Keras 3 over several processes: python -m tests.keras_campaign --seed 0.

A seed is a number of replicas for each rank, a runtime and a Python. The environment is installed
from the runtime's lock into ~/.cache/railhead/keras-campaign, once for each digest of the lock.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # the tests' stand-ins

from samples.keras_trainings import CASES  # noqa: E402
from standins.pythons import python_here  # noqa: E402
from standins.runs.keras_trainings import differences, launch  # noqa: E402

from bootstrap.plan.runtimes import RUNTIMES  # noqa: E402
from bootstrap.provision.uv import ENVIRONMENT  # noqa: E402

UV = Path(sys.executable).parent / "uv"
# Keras 3.12 is the last one for Python 3.10.
SEEDS = [*itertools.product((1, 2), ("tf2.18-cpu", "tf2.21-cpu"), ("3.10", "3.12"))]


def main() -> int:
    """Exit code 1 if processes do not agree."""
    parser = argparse.ArgumentParser(prog="python -m tests.keras_campaign", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--only", action="append", choices=sorted(CASES), help="these cases")
    options = parser.parse_args()
    replicas, runtime, version = SEEDS[options.seed % len(SEEDS)]
    print(f"{runtime} on Python {version}, {replicas} replicas for each rank", flush=True)
    names = options.only or [*CASES]
    with tempfile.TemporaryDirectory() as folder:
        output = launch(python_of(runtime, version), Path(folder), names, replicas)
        lines = []
        for name in names:
            try:
                lines += differences(Path(folder), name)
            except OSError as error:
                lines.append(f"{name}: {error}")
    print("\n".join([*lines, f"{len(names)} cases, {len(lines)} differences"]))
    if lines:
        print(output[-6000:])
    return 1 if lines else 0


def python_of(runtime: str, version: str) -> str:
    """The python of an environment with a runtime's lock."""
    lock = RUNTIMES[runtime].lock
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    environment = caches / "railhead/keras-campaign" / f"{runtime}-{version}-{digest}"
    python = environment / "bin/python"
    if not (environment / ".ok").exists():
        here = python_here(version)
        if here is None:
            raise SystemExit(f"this machine has no Python {version}: try another seed")
        run("venv", "--quiet", "--clear", "--python", here, str(environment))
        run("pip", "sync", "--quiet", "--require-hashes", "--python", str(python), str(lock))
        (environment / ".ok").touch()
    return str(python)


def run(*words: str) -> None:
    """Run uv."""
    subprocess.run([str(UV), *words], env={**os.environ, **ENVIRONMENT}, check=True)


if __name__ == "__main__":
    sys.exit(main())
