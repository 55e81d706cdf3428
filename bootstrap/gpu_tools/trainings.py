"""Trains with `training/` itself on this machine's GPUs, once for each strategy of several devices.

Each training must use all GPUs and learn the digits. Part of `make gpu-check`.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from railhead.documents.codec import decode
from railhead.documents.lazy import dataclass
from railhead.documents.runs.evaluation import Evaluation

from ..console import log
from ..plan import runtimes
from .tested_on import Check

STRATEGIES = ("horovod", "mirrored", "multiworker")
# The same steps on any number of GPUs: the global batch is fixed.
SETTINGS = ("epochs=10", "global_batch=64", "min_accuracy=0.9", "export=off")
MINUTES = 10
LIMIT = ("timeout", "--foreground", "--kill-after=10")  # Ctrl-C reaches the program, too
USED = re.compile(r"(\d+) replica\(s\) in (\d+) process\(es\), .*? and (\d+) GPU\(s\) each")


@dataclass(frozen=True)
class Process:
    """One process to start: its argv, and its own variables."""

    argv: Sequence[str]
    variables: Mapping[str, str]


def train(python: Path, strategy: str, gpus: int, folder: Path | None = None) -> Check:
    """Train on `gpus` GPUs (0: on the CPU) with one strategy; `folder` receives the results."""
    name = name_of(strategy)
    with ExitStack() as stack:
        results = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            out = run_together(processes(python, strategy, gpus, results))
            return Check(name, True, figure(out, gpus, results))
        except (RuntimeError, OSError, ValueError) as error:
            return Check(name, False, str(error)[-500:])


def name_of(strategy: str) -> str:
    """The name of the check of a strategy."""
    return f"training with {strategy}"


def processes(python: Path, strategy: str, gpus: int, results: Path) -> list[Process]:
    """The processes to start: one process, mpirun with one rank per GPU, or up to two workers."""
    argv = [str(python), "-m", "training", "--preset", "digits", "--strategy", strategy]
    argv += ["--results", str(results), "--fresh"]
    for setting in SETTINGS:
        argv += ["--set", setting]
    if strategy == "horovod":
        mpirun = ["mpirun", "-np", str(max(1, gpus)), "--oversubscribe", "--bind-to", "none"]
        return [Process([*mpirun, *argv], runtimes.TRY_VARIABLES)]
    if strategy == "multiworker":
        count = min(2, gpus) or 1
        addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
        return [Process(argv, worker(addresses, index, gpus)) for index in range(count)]
    return [Process(argv, {})]


def worker(addresses: Sequence[str], index: int, gpus: int) -> dict[str, str]:
    """The variables of one worker: TF_CONFIG, and its part of the GPUs."""
    task = {"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": index}}
    indices = range(index, gpus, len(addresses))
    devices = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, indices))} if gpus else {}
    return {"TF_CONFIG": json.dumps(task), **devices}


def free_ports(count: int) -> list[int]:
    """Different ports that are free now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("", 0))) for _ in range(count)]
        return [server.getsockname()[1] for server in sockets]


def run_together(started: Sequence[Process]) -> str:
    """Run the processes at the same time; returns the output of the first.

    Raises:
        RuntimeError: one failed or did not end in MINUTES, with the last lines of its output.
    """
    common = {**os.environ, "PYTHONPATH": str(runtimes.REPO)}
    limit = [*LIMIT, str(60 * MINUTES)]
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    pipes |= {"stderr": subprocess.STDOUT, "text": True, "cwd": "/"}
    with ExitStack() as stack:
        running = [
            stack.enter_context(
                log.started([*limit, *p.argv], env={**common, **p.variables}, **pipes)
            )
            for p in started
        ]
        outputs: list[str] = [process.communicate()[0] for process in running]
    for process, out in zip(running, outputs, strict=True):
        if process.returncode:
            tail = " / ".join(out.strip().splitlines()[-3:])
            raise RuntimeError(f"exit code {process.returncode}: {tail}")
    return outputs[0]


def figure(out: str, gpus: int, results: Path) -> str:
    """What the training reached, and on how many GPUs; RuntimeError if either is too little."""
    used = USED.search(out)
    if not used:
        raise RuntimeError(f"no line says what was used: {out.strip()[-300:]}")
    replicas, count, each = map(int, used.groups())
    if count * each != gpus or replicas != max(1, gpus):
        raise RuntimeError(f"{replicas} replicas on {count * each} GPUs, expected {gpus} GPUs")
    evaluation = decode(Evaluation, json.loads((results / "evaluation.json").read_text()))
    accuracy = evaluation.figures.get("accuracy", 0.0)
    reached = f"accuracy {accuracy:.3f} on {evaluation.samples or 0:.0f} held-out samples"
    if not evaluation.passed:
        raise RuntimeError(f"{reached}, below {evaluation.threshold}")
    return f"{reached}; {gpus} GPUs in {count} process(es)"
