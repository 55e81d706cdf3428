"""Runs of tests/samples/keras_trainings.py, and whether the processes agree."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from places import ROOT, TESTS
from samples.keras_trainings import CASES, RANKS, Case
from standins.runs.launches import Command, run_together, tf_configs

PROGRAM = TESTS / "samples/keras_trainings.py"
ALONE = "alone"


@dataclass(frozen=True)
class Outcome:
    """What one process left of a case."""

    arrays: Mapping[str, Any]
    values: Mapping[str, Any]


def launch(python: str, folder: Path, names: Sequence[str], replicas: int = 1) -> str:
    """Run the cases in all processes, with so many replicas in each rank; returns their output."""
    environment = {name: text for name, text in os.environ.items() if name != "TF_CONFIG"}
    environment |= {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{TESTS}",
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "KERAS_BACKEND": "tensorflow",
        "REPLICAS": str(replicas),
    }
    command = [python, str(PROGRAM)]
    servers = tf_configs({"chief": 1, "ps": 1, "worker": 1})[0]
    alone = [*command, "alone", str(folder), *names]
    started: list[Command] = [(alone, servers)]
    for variables in tf_configs({"worker": RANKS}):
        started.append(([*command, "rank", str(folder), *names], variables))
    return "\n".join(run_together(started, folder, environment))


def outcome(folder: Path, name: str, process: str) -> Outcome:
    """What a process left of a case: the number of a rank, or ALONE."""
    with np.load(folder / f"{name}-{process}.npz") as file:
        arrays = {key: file[key] for key in file.files}
    return Outcome(arrays, json.loads((folder / f"{name}-{process}.json").read_text()))


def differences(folder: Path, name: str) -> list[str]:
    """How the outcomes of a case differ from that of one process, and the ranks' from each other;
    one line for each difference."""
    case, alone = CASES[name], outcome(folder, name, ALONE)
    numbers = sorted(path.stem.rpartition("-")[2] for path in folder.glob(f"{name}-[0-9].npz"))
    ranks = {f"rank {number}": outcome(folder, name, number) for number in numbers}
    lines = [] if ranks else [f"{name}: no rank has an outcome"]
    for rank, ours in ranks.items():
        lines += [f"{name}: {line} of {rank}" for line in unequal(case, ours, alone)]
        if ours.values["history"] != ranks["rank 0"].values["history"] and case.finite:
            lines.append(f"{name}: the history of {rank} is not that of rank 0")
    return lines


def unequal(case: Case, ours: Outcome, alone: Outcome) -> list[str]:
    """What a process left that is not what the one process left, within the case's tolerance."""
    lines = []
    # Moving averages are those of each replica, and so are the evaluations with them.
    kinds = ("trainable",) if case.model == "normalized" else ("weight", "predictions")
    for key, expected in alone.arrays.items():
        if key.startswith(kinds):
            value = ours.arrays[key]
            error = np.nanmax(np.abs(value - expected))
            if not error <= case.tolerance or (np.isnan(value) != np.isnan(expected)).any():
                lines.append(f"{key} (error {error:.1e})")
    for key in ("iterations",) if case.mirrored else ("iterations", "calls"):
        if ours.values[key] != alone.values[key]:
            lines.append(f"{key} ({ours.values[key]}, not {alone.values[key]})")
    if case.finite:
        limit = max(case.tolerance, 1e-4)
        pairs = zip(numbers_of(case, ours), numbers_of(case, alone), strict=True)
        lines += [f"{key} ({a}, not {b})" for (key, a), (_, b) in pairs if abs(a - b) > limit]
    return lines


def numbers_of(case: Case, trained: Outcome) -> list[tuple[str, float]]:
    """Each number of the history and of the evaluation, with its name."""
    history, evaluation = trained.values["history"], trained.values["evaluation"]
    rows = [(key, value) for key, values in sorted(history.items()) for value in values]
    rows += [("evaluation", value) for _, value in sorted(evaluation.items())]
    moving = ("val_", "evaluation") if case.model == "normalized" else ()
    return [(key, value) for key, value in rows if not key.startswith(moving)]
