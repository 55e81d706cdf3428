"""Cases that need TensorFlow: functions that get an empty folder, and fail by raising.

    PYTHON case_runner.py FILE [CASE ...]    run them and print the outcome and seconds of each
    PYTHON case_runner.py                    run what standard input names, a line of JSON each

A runtime has no pytest, and TensorFlow takes seconds to import: one process runs the cases of many
modules. tests/training/conftest.py starts it and shows each case as a test.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import importlib.util
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from training.data import DataError
from training.results import TrainingError

Case = Callable[[Path], None]


def case(function: Case) -> Case:
    """Mark a function as a case."""
    vars(function)["is_case"] = True
    return function


@contextlib.contextmanager
def refused(*parts: str) -> Iterator[None]:
    """The block must end with a DataError or TrainingError that has all these parts."""
    try:
        yield
    except (DataError, TrainingError) as error:
        missing = [text for text in parts if text not in str(error)]
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
    package = ModuleType("horovod")
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


@functools.cache
def module_at(path: str) -> ModuleType:
    """The module in a file, imported once."""
    name = Path(path).stem
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Keras looks its own classes' modules up
    spec.loader.exec_module(module)
    return module


def outcome(path: str, name: str, *arguments: str) -> str:
    """Empty when the case passes, otherwise its traceback."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            getattr(module_at(path), name)(Path(folder), *arguments)
        except BaseException:
            return traceback.format_exc()
    return ""


def serve() -> None:
    """Run the cases that standard input names, and answer each with its outcome."""
    # What TensorFlow prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    prepare()
    for line in sys.stdin:
        print(json.dumps(outcome(*json.loads(line))), file=answers, flush=True)


def prepare() -> None:
    """Cut the CPU into two devices, which is possible only before TensorFlow computes anything, and
    leave graphs as they are: small ones run a few times, and optimizing them takes a third of all
    seconds."""
    gc.disable()  # an import creates next to no garbage
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    importlib.import_module("samples.trainings")
    gc.enable()
    gc.freeze()  # each full collection would look through all objects of TensorFlow: half of all


def main(arguments: list[str]) -> int:
    """Run the cases of one file, for a person."""
    path, *names = arguments
    prepare()
    chosen = names or [name for name, value in vars(module_at(path)).items() if is_case(value)]
    failures = 0
    for name in chosen:
        began, used = time.perf_counter(), time.process_time()
        text = outcome(path, name)
        seconds, used = time.perf_counter() - began, time.process_time() - used
        print(f"{seconds:6.1f} s, {used:6.1f} s of CPU  {name}\n{text}", end="", flush=True)
        failures += bool(text)
    return int(failures > 0)


def is_case(value: Any) -> bool:
    """Whether something is a function with the mark of a case."""
    return getattr(value, "is_case", False) is True


if __name__ == "__main__":
    from standins import case_runner  # the cases use that module, not __main__

    if sys.argv[1:]:
        sys.exit(case_runner.main(sys.argv[1:]))
    case_runner.serve()
