"""The marker `fast`, for `make test-fast`: tests that start no process, no host and no server.

It is a pytest plugin; tests/conftest.py loads it. The marker is given by rule:

- the test is not in FOLDERS and has none of MARKERS;
- it uses none of FIXTURES, also not through another fixture;
- neither its module nor one of the tests' modules that it imports from uses STARTERS.

A shell that stands for a command (standins/pulumi_command.py) takes some ms: it is no process here.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

TESTS = Path(__file__).parent
FOLDERS = ("cloud", "e2e", "engine", "hosts")
MARKERS = ("root", "slow")
FIXTURES = {
    "aws_client",
    "cluster",
    "full_hosts",
    "gcs_store",
    "on_gcs",
    "one_host",
    "runtime_python",
}
FIXTURES |= {"ready", "s3_server", "s3_store", "shared_caches", "world"}
STARTERS = {"subprocess", "multiprocessing", "moto", "pulumi"}


@pytest.hookimpl(tryfirst=True)  # before -m is applied
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the fast tests."""
    for item in items:
        if is_fast(item):
            item.add_marker("fast")


def is_fast(item: pytest.Item) -> bool:
    """Whether a test starts nothing, by the rule."""
    folder = item.path.relative_to(TESTS).parts[0]
    if folder in FOLDERS or any(item.get_closest_marker(name) for name in MARKERS):
        return False
    if not FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        return False
    module = getattr(item, "module", None)
    return isinstance(module, ModuleType) and not starts(module)


@cache
def starts(module: ModuleType) -> bool:
    """Whether a module of the tests, or one that it imports from, uses STARTERS."""
    found = [getattr(value, "__module__", None) for value in vars(module).values()]
    found += [value.__name__ for value in vars(module).values() if isinstance(value, ModuleType)]
    names = {name for name in found if isinstance(name, str)} - {module.__name__}
    if any(name.partition(".")[0] in STARTERS for name in names):
        return True
    return any(starts(sys.modules[name]) for name in names if _is_of_tests(sys.modules.get(name)))


def _is_of_tests(module: ModuleType | None) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).is_relative_to(TESTS)
