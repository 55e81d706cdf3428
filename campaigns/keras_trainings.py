"""All cases of Keras 3 over several processes: python -m campaigns.keras_trainings --seed 0.

With `--table arguments` each argument of each optimizer, from their signatures, and with `--table
counts` the samples of each kind of data, in place of the cases.

A seed is a number of replicas for each rank, a runtime and a Python. The environment is installed
from the runtime's lock into ~/.cache/railhead/keras-campaign, once for each digest of the lock.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from places import ROOT, TESTS
from samples.keras_trainings import CASES
from standins.pythons import python_here
from standins.runs.keras_trainings import differences, launch
from standins.runs.launches import Command, run_together, tf_configs

from bootstrap.plan.runtimes import RUNTIMES
from bootstrap.provision.uv import ENVIRONMENT

UV = Path(sys.executable).parent / "uv"
TABLES = {"arguments": "optimizer_arguments.py", "counts": "counted_samples.py"}
PART = 15  # cases of each start: within the time of run_together
# Keras 3.12 is the last one for Python 3.10.
SEEDS = [*itertools.product((1, 2), ("tf2.18-cpu", "tf2.21-cpu"), ("3.10", "3.12"))]


def main() -> int:
    """Exit code 1 if processes do not agree."""
    parser = argparse.ArgumentParser(
        prog="python -m campaigns.keras_trainings", description=__doc__
    )
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--only", action="append", choices=sorted(CASES), help="these cases")
    parser.add_argument("--table", choices=TABLES, help="a table in place of the cases")
    options = parser.parse_args()
    replicas, runtime, version = SEEDS[options.seed % len(SEEDS)]
    print(f"{runtime} on Python {version}, {replicas} replicas for each rank", flush=True)
    if options.table:
        lines = unequal(python_of(runtime, version), TABLES[options.table])
        print("\n".join([*lines, f"{len(lines)} differences"]))
        return 1 if lines else 0
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


def unequal(python: str, program: str) -> list[str]:
    """What two ranks left of a table that is not what one process left, one line each."""
    environment = {name: text for name, text in os.environ.items() if name != "TF_CONFIG"}
    environment |= {"PYTHONPATH": f"{ROOT}{os.pathsep}{TESTS}", "CUDA_VISIBLE_DEVICES": "-1"}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}
    command, lines, done = [python, str(TESTS / "samples" / program)], list[str](), 0

    def outputs_of(started: Sequence[Command], *names: str) -> list[Any]:
        """What the commands left, by case."""
        with tempfile.TemporaryDirectory() as folder:
            commands = [([*words, folder, *names], more) for words, more in started]
            output = run_together(commands, Path(folder), environment)
            files = [*Path(folder).glob("*.json")]
            if len(files) < len(started):
                raise SystemExit(f"a process ended: {output[-1][-3000:]}")
            return [json.loads(file.read_text()) for file in files]

    (cases,) = outputs_of([([*command, "names"], {})])
    for begin in range(0, len(cases), PART):
        part = cases[begin : begin + PART]
        (alone,) = outputs_of([([*command, "alone"], {})], *part)
        started = [([*command, "rank"], config) for config in tf_configs({"worker": 2})]
        ranks = outputs_of(started, *part)
        lines += [
            f"{case}: {str(rank.get(case))[:200]}, not {str(alone[case])[:200]}"
            for case in part
            for rank in ranks
            if not same(rank.get(case), alone[case])
        ]
        done += len(part)
        print(f"{done} of {len(cases)} cases, {len(lines)} differences", flush=True)
    return lines


def same(first: Any, second: Any) -> bool:
    """Whether lists of numbers differ only by rounding, and errors not in their kind: Keras words
    one otherwise where it arises in a graph."""
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return all(abs(a - b) <= 1e-5 * max(1, abs(b)) for a, b in zip(first, second, strict=True))
    if isinstance(first, str) and isinstance(second, str):
        return first.partition(":")[0] == second.partition(":")[0]
    return bool(first == second)


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
