"""The cases of the modules below, several of them run by a runtime's python in one process.

TensorFlow takes seconds to import: one process for many cases, and each case shown as a test.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
RUNS = (  # what one process runs: TensorFlow's devices are set once in each
    ("cases_formats", "cases_shards", "cases_models"),
    ("cases_devices",),
    ("cases_checkpoints", "cases_steps"),
    ("cases_settings", "cases_results", "cases_evaluation", "cases_served", "cases_tfrecord")
    + ("cases_tables", "cases_faults"),
)

# The first case of a process waits for all of them.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1000)]


def names(module: str) -> list[str]:
    """The functions of a module that are marked as cases."""
    return [
        item.name
        for item in ast.parse((HERE / f"{module}.py").read_text()).body
        if isinstance(item, ast.FunctionDef)
        and any(isinstance(mark, ast.Name) and mark.id == "case" for mark in item.decorator_list)
    ]


@functools.cache
def outcomes(python: str, modules: tuple[str, ...]) -> dict[str, str]:
    """Per case its traceback; empty where it passed."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests", HERE))),
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    command = [python, str(ROOT / "tests/standins/case_runner.py"), *modules]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("modules", "name"),
    [
        pytest.param(modules, name, id=f"{module}-{name}")
        for modules in RUNS
        for module in modules
        for name in names(module)
    ],
)
def test_case(modules: tuple[str, ...], name: str, runtime_python: str) -> None:
    if failure := outcomes(runtime_python, modules)[name]:
        pytest.fail(failure, pytrace=False)
