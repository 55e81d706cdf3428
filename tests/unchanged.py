"""`--unchanged` skips a file of FILES that has passed today with the same files of DECIDE.

It is a pytest plugin; tests/conftest.py loads it. FILES train for minutes and import nothing of
`bootstrap` or `stacks` but what DECIDE has: a change there cannot fail them. What one of them draws
(draws.py) is drawn once a day.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest
from e2e import kept_environments
from passed import Passed
from places import ROOT

FILES = (
    *("tests/training/*cases_*.py", "tests/training/strategies/test_strategies.py"),
    *("tests/training/data/test_buckets.py", "tests/keras_patches/test_trainings.py"),
    "tests/keras_patches/test_horovod.py",
)
DECIDE = (
    *("training", "railhead", "locks", "examples", "tests/training", "tests/keras_patches"),
    *("tests/samples", "tests/standins", "tests/conftest.py", "tests/draws.py"),
    *("tests/file_lock.py", "tests/places.py", "tests/time_budgets.py", "tests/unchanged.py"),
    *("tests/workers.py", "bootstrap/host/rank/quick_import.py"),
)
REASON = "it has passed today with the same files"
CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
LEFT = pytest.StashKey[Counter[str]]()  # tests of each file that have not passed


def pytest_addoption(parser: pytest.Parser) -> None:
    """--unchanged."""
    parser.addoption("--unchanged", action="store_true", help=f"skip a training file if {REASON}")


@pytest.hookimpl(tryfirst=True)  # before -k leaves out some of a file
def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Skip, and count what has to pass."""
    config.stash[LEFT] = Counter()
    for item in items if config.getoption("unchanged") else ():
        file = file_of(item.nodeid)
        if is_decided(file):
            config.stash[LEFT][file] += 1
            if passed(file):
                item.add_marker(pytest.mark.skip(reason=REASON))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Note a file when its last test has passed."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    left, file = item.config.stash[LEFT], file_of(item.nodeid)
    if file in left and report.when == "call" and report.passed:
        left[file] -= 1
        if not left[file]:
            passed(file).note()
    return report  # type: ignore[return-value]


def file_of(node: str) -> str:
    """The file of a test."""
    return node.partition("::")[0]


def is_decided(file: str) -> bool:
    """Whether it is one of FILES."""
    return any(fnmatch(file, pattern) for pattern in FILES)


@cache
def passed(file: str) -> Passed:
    """Whether a file has passed today, with the same files and runtimes."""
    return Passed(CACHES, [file, date.today().isoformat(), *runtimes(), content(ROOT)])


def runtimes() -> list[str]:
    """The names of the environments that have TensorFlow."""
    rows = (kept_environments.DEFAULT, kept_environments.NEWEST)
    return [digest for row in rows for digest in kept_environments.digests_of(row)]


@cache
def content(root: Path) -> str:
    """A digest of the path and the content of each file of DECIDE."""
    found = [path for name in DECIDE for path in [root / name, *(root / name).rglob("*")]]
    files = [path for path in found if path.is_file() and "__pycache__" not in path.parts]
    digest = hashlib.sha256()
    for path in sorted(files):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(root)} {len(text)} ".encode() + text)
    return digest.hexdigest()
