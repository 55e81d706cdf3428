"""`fab evaluate RUN --here`: the evaluation on this machine, without hosts."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bootstrap.console.output import print_lines
from bootstrap.data.inputs import DataInput
from bootstrap.errors import BelowThreshold, RailheadError, UsageError
from bootstrap.evaluation.request import FOLDER, MODEL, NAME
from bootstrap.inventory.files import atomic_write
from bootstrap.plan.runtimes import REPO
from bootstrap.provision.local_environment import python_of
from bootstrap.remote.evaluation.thresholds import judged
from bootstrap.runs.earlier_run import EarlierRun, setting_texts
from bootstrap.runs.launch import new_run_id
from bootstrap.runs.metric_options import Threshold
from bootstrap.runs.request import RunRequest

RUNTIME = "runtime-tf2.18-cpu"
FILE = "evaluation.json"


def evaluate(earlier: EarlierRun, request: RunRequest) -> Path:
    """Evaluate with a runtime of this machine; returns the folder of the results.

    Raises:
        UsageError: a script, or data that is on the hosts.
        BelowThreshold: a threshold is not reached.
    """
    if request.program.kind == "script":
        raise UsageError(
            "--here evaluates models of our own training; a script runs on hosts",
            hint=f"fab evaluate {earlier.run.run_id} --script {request.program.path}",
        )
    data = [_data_option(item) for item in request.data if item.spec.name != NAME]
    folder = earlier.run.results / FOLDER / new_run_id()
    _run([*_argv(earlier, folder), *(word for text in data for word in ("--data", text))])
    _judge(folder, request.options.thresholds)
    print_lines(f"results: {folder}")
    return folder


def _data_option(item: DataInput) -> str:
    if item.spec.kind == "host":
        raise UsageError(f"--data {item.spec.name}: {item.spec.uri} is on the hosts, not here")
    uri = item.spec.uri
    path = str(Path(uri).expanduser().resolve()) if item.spec.kind == "local" else uri
    mode = f",{item.spec.mode}" if item.spec.mode else ""
    return f"{item.spec.name}={path}{mode}"


def _argv(earlier: EarlierRun, folder: Path) -> list[str]:
    settings = [word for text in setting_texts(earlier.document) for word in ("--set", text)]
    argv = [str(python_of(RUNTIME)), "-m", "training", "--results", str(folder)]
    return [*argv, "--evaluate", str(earlier.run.results / MODEL), *settings]


def _run(argv: Sequence[str]) -> None:
    """Run the evaluation; its output is shown as it comes."""
    ours = ("RAILHEAD_", "PYTHON", "TF_CONFIG", "OMPI_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    with subprocess.Popen(
        argv,
        cwd=REPO,
        env={**environment, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout
        for line in process.stdout:
            print_lines(line.rstrip("\n"))
    if process.returncode:
        raise RailheadError(f"the evaluation failed with exit code {process.returncode}")


def _judge(folder: Path, thresholds: Sequence[Threshold]) -> None:
    """Write the judgement into evaluation.json; BelowThreshold if it has not passed."""
    path = folder / FILE
    evaluation: dict[str, Any] = json.loads(path.read_text())
    found = judged(evaluation, [item.document() for item in thresholds])
    atomic_write(path, json.dumps(found, indent=1) + "\n")
    if found["failed"]:
        raise BelowThreshold("; ".join(found["failed"]))
