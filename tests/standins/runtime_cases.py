"""Files `cases_*.py` as test modules whose functions a runtime's python runs.

This side has no TensorFlow and does not import them: it reads the names of their cases.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from places import ROOT, TESTS
from time_budgets import HELPERS

RUNNER = TESTS / "standins/case_runner.py"


class CaseModule(pytest.Module):
    """A file of cases: each is a test of that name, which asks the fixture `runtime` to run it."""

    def _getobj(self) -> ModuleType:
        module = ModuleType(self.path.stem, f"The cases of {self.path.name}, by name.")
        module.__file__ = str(self.path)
        # The import of TensorFlow counts for the first case.
        vars(module)["pytestmark"] = [pytest.mark.slow]
        for name in case_names(self.path):
            vars(module)[name] = test_of(self.path, name)
        return module

    def istestfunction(self, obj: object, name: str) -> bool:
        return hasattr(obj, "is_case")


def case_names(path: Path) -> list[str]:
    """The functions of a file that are marked as cases."""
    return [
        item.name
        for item in ast.parse(path.read_text()).body
        if isinstance(item, ast.FunctionDef)
        and any(isinstance(mark, ast.Name) and mark.id == "case" for mark in item.decorator_list)
    ]


def test_of(path: Path, name: str) -> Callable[[Runtime], None]:
    """The test that runs one case."""

    def test(runtime: Runtime) -> None:
        if traceback := runtime.run(path, name):
            pytest.fail(traceback, pytrace=False)

    vars(test)["is_case"] = True
    return test


class Runtime:
    """A process of a runtime's python that runs cases; a new one where the last one has died."""

    def __init__(self, python: str) -> None:
        self.python = python
        self.process: subprocess.Popen[str] | None = None

    def run(self, path: Path, name: str, *arguments: str) -> str:
        """Empty when the case passes, otherwise its traceback or what the process printed.

        It is called with an empty folder and the arguments.
        """
        process = self.process or self._start()
        assert process.stdin and process.stdout
        try:
            process.stdin.write(json.dumps([str(path), name, *arguments]) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BaseException:  # a time limit, too: its answer must not be taken for the next one's
            self.close()
            raise
        if not answer:
            code = self.close()
            self.errors.seek(0)
            return f"the process ended with {code}:\n{self.errors.read()[-3000:]}"
        traceback: str = json.loads(answer)
        return traceback

    def _start(self) -> subprocess.Popen[str]:
        environment: dict[str, Any] = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, TESTS))),
            "CUDA_VISIBLE_DEVICES": "-1",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            # Two replicas on as many threads as cores would wait for each other most of the time.
            "TF_NUM_INTRAOP_THREADS": "1",
            "TF_NUM_INTEROP_THREADS": "2",
        }
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the process
        self.process = subprocess.Popen(
            [self.python, str(RUNNER)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            start_new_session=True,  # as tests/conftest.py does for workers
        )
        HELPERS.add(self.process.pid)
        return self.process

    def close(self) -> int:
        """End the process; its exit code."""
        if self.process is None:
            return 0
        process, self.process = self.process, None
        process.kill()
        process.communicate()
        HELPERS.discard(process.pid)
        return process.returncode
