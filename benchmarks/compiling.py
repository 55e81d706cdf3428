"""What a Horovod wheel costs to compile: our recipe beside Horovod's own build.

    python -m benchmarks.compiling [--runtime tf2.21]

One environment, both ways one after the other: `horovod.sh`, and `pip wheel` with Horovod's CMake
files as its documentation has it (MPI and Gloo; it needs cmake and make). Each wheel is then tried
on two ranks as `fab wheel` does. CPU seconds are those of all processes of a build: other work on
the machine changes the seconds. Exit code 1: ours takes more than LIMIT of the other's CPU seconds.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bootstrap.plan.runtimes import LOCKS, Environment
from bootstrap.provision import local_wheel

LIMIT = 0.4
# Headers that Horovod expects elsewhere: as it needs them with TensorFlow 2.19 and later.
HEADER = "tensorflow/compiler/xla/client/xla_builder.h"
MOVED = '#include "tensorflow/compiler/xla/hlo/builder/xla_builder.h"\n'


def as_published(python: Path, folder: Path) -> Path:
    """A wheel of Horovod's own build, with Gloo; made in `folder` for the environment of `python`.

    Raises:
        CalledProcessError: it was not built; its output is above.
    """
    (include,) = python.parents[1].glob("lib/python3.*/site-packages/tensorflow/include")
    header = folder / "headers" / HEADER
    header.parent.mkdir(parents=True)
    header.write_text(MOVED)
    external = include / "external"
    headers = [external / "highwayhash", external / "farmhash_archive/src"]
    if not (include / HEADER).exists():
        headers.insert(0, folder / "headers")
    choices = {
        "HOROVOD_WITH_TENSORFLOW": "1",
        "HOROVOD_WITH_MPI": "1",
        "HOROVOD_WITH_GLOO": "1",
        "HOROVOD_WITHOUT_PYTORCH": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
        "CPLUS_INCLUDE_PATH": ":".join(map(str, headers)),
        "MAKEFLAGS": f"-j{os.cpu_count()}",
        "PATH": f"{python.parent}:{os.environ['PATH']}",
    }
    argv = [str(python), "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    argv += ["--no-cache-dir", "--no-binary", "horovod", "--require-hashes"]
    argv += ["-r", str(LOCKS / "horovod.txt"), "-w", str(folder / "wheel")]
    subprocess.run(argv, env={**os.environ, **choices}, check=True)
    return next((folder / "wheel").glob("horovod-*.whl"))


def measured(build: Callable[[], Path]) -> tuple[Path, float, float]:
    """The wheel of a build, its CPU seconds and its seconds."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    wheel = build()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wheel, cpu, time.monotonic() - begin


def compare(environment: Environment, folder: Path) -> float:
    """Build and try both; returns the ratio of their CPU seconds."""
    facts = local_wheel.facts_here()
    local_wheel.refuse_missing(facts)
    lock = folder / "lock.txt"
    lock.write_text(local_wheel.for_building(environment.runtime.lock.read_text()))
    local_wheel.install(folder / "env", facts.pythons[environment.python], lock)
    python = folder / "env/bin/python"
    subprocess.run([str(python), "-c", "import tensorflow"], check=True)  # both find its bytecode
    ways: dict[str, Callable[[], Path]] = {
        "horovod.sh": lambda: local_wheel.build(folder, environment),
        "Horovod's own": lambda: as_published(python, folder / "published"),
    }
    spent = []
    for name, build in ways.items():
        wheel, cpu, seconds = measured(build)
        tried = local_wheel.attempt(folder, wheel, environment)
        spent.append(cpu)
        size = wheel.stat().st_size / 1e6
        print(f"{name}: {cpu:.0f} CPU s, {seconds:.0f} s, {size:.1f} MB; {tried}", flush=True)
    return spent[0] / spent[1]


def main() -> int:
    """Exit code 1 if the limit is not kept."""
    parser = argparse.ArgumentParser(prog="benchmarks.compiling", description=__doc__)
    parser.add_argument("--runtime", default="tf2.18")
    name = parser.parse_args().runtime
    environment = local_wheel.environment_here(local_wheel.facts_here(), name=name)
    print(f"{environment.runtime.name}, Python {environment.python}; load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="compiling-") as folder:
        ratio = compare(environment, Path(folder))
    print(f"ratio {ratio:.2f} of the CPU seconds; limit {LIMIT}")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
