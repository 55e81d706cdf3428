"""Runs cases in a runtime's python: functions that get an empty folder, and fail by raising.

    PYTHON case_runner.py cases_shards cases_models

A runtime has no pytest. tests/training/test_in_runtime.py starts this once for several modules,
since TensorFlow takes seconds to import, and shows each case as a test of its own.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from training.data import DataError
from training.results import TrainingError

CASES: dict[str, Callable[[Path], None]] = {}


def case(function: Callable[[Path], None]) -> Callable[[Path], None]:
    """Register a case under the name of its function."""
    CASES[function.__name__] = function
    return function


@contextlib.contextmanager
def refused(*parts: str) -> Iterator[None]:
    """The block must end with a DataError or TrainingError that has all these parts."""
    try:
        yield
    except (DataError, TrainingError) as error:
        missing = [part for part in parts if part not in str(error)]
        assert not missing, f"{missing} not in {error}"
    else:
        raise AssertionError(f"nothing was refused: {parts}")


@contextlib.contextmanager
def replaced(owner: Any, **values: Any) -> Iterator[None]:
    before = {name: getattr(owner, name) for name in values}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


@contextlib.contextmanager
def replaced_module(name: str, stand_in: Any) -> Iterator[None]:
    import types

    package = types.ModuleType("horovod")
    package.tensorflow = stand_in  # type: ignore[attr-defined]
    before = {key: sys.modules.pop(key, None) for key in ("horovod", name)}
    sys.modules.update({"horovod": package, name: stand_in})
    try:
        yield
    finally:
        for key, value in before.items():
            sys.modules.pop(key)
            if value is not None:
                sys.modules[key] = value


def outcome(function: Callable[[Path], None]) -> str:
    """Empty when the case passes, else its traceback."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            function(Path(folder))
        except BaseException:
            return traceback.format_exc()
    return ""


def run(modules: list[str]) -> None:
    """Run the cases of these modules and print what came of each: empty, or a traceback."""
    with contextlib.redirect_stdout(sys.stderr):
        for module in modules:
            importlib.import_module(module)
        found = {name: outcome(function) for name, function in CASES.items()}
    print(json.dumps(found))


if __name__ == "__main__":
    from standins import case_runner  # the cases register there, not in __main__

    case_runner.run(sys.argv[1:])
