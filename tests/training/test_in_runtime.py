"""The cases of the files below, each file run by a runtime's python in one process.

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
FILES = ("cases_data.py", "cases_devices.py", "cases_loop.py")

pytestmark = pytest.mark.slow


def names(file: str) -> list[str]:
    """The functions of a file that are marked as cases."""
    return [
        item.name
        for item in ast.parse((HERE / file).read_text()).body
        if isinstance(item, ast.FunctionDef)
        and any(isinstance(mark, ast.Name) and mark.id == "case" for mark in item.decorator_list)
    ]


@functools.cache
def outcomes(python: str, file: str) -> dict[str, str]:
    """Per case its traceback; empty where it passed."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    command = [python, str(HERE / file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(("file", "name"), [(file, name) for file in FILES for name in names(file)])
def test_case(file: str, name: str, runtime_python: str) -> None:
    if failure := outcomes(runtime_python, file)[name]:
        pytest.fail(failure, pytrace=False)
