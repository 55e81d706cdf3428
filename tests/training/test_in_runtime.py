"""The cases of cases.py, run by a runtime's python in one process, each shown as a test."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = Path(__file__).with_name("cases.py")

pytestmark = pytest.mark.slow
NAMES = [
    item.name
    for item in ast.parse(CASES.read_text()).body
    if isinstance(item, ast.FunctionDef)
    and any(isinstance(mark, ast.Name) and mark.id == "case" for mark in item.decorator_list)
]


@pytest.fixture(scope="module")
def outcomes(runtime_python: str) -> dict[str, str]:
    """Per case its traceback; empty where it passed."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    command = [runtime_python, str(CASES)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", NAMES)
def test_case(name: str, outcomes: dict[str, str]) -> None:
    if outcomes[name]:
        pytest.fail(outcomes[name], pytrace=False)
