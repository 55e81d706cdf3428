"""The marker `fast`, for `make test-fast`: tests that start no process, no host and no server.

It is a pytest plugin; tests/conftest.py loads it. The marker is given by rule:

- the test is not in FOLDERS and has none of MARKERS;
- it uses none of FIXTURES, also not through another fixture;
- neither its module nor one of the tests' modules that it imports from uses STARTERS: packages and
  modules that start processes.

A shell script that replaces a command (standins/pulumi_command.py) takes some ms: it does not count
as a process here.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from places import TESTS

FOLDERS = ("cloud", "e2e", "engine", "hosts")
MARKERS = ("root", "slow")
FIXTURES = {
    "aws_client",
    "cluster",
    "full_hosts",
    "gcs_store",
    "in_cloud",
    "on_gcs",
    "one_host",
    "runtime_python",
    "newest_python",
}
FIXTURES |= {"ready", "s3_store", "shared_caches", "site", "world"}
STARTERS = {"subprocess", "multiprocessing", "moto", "pulumi", "bootstrap.ssh.local_session"}


@pytest.hookimpl(tryfirst=True)  # before -m is applied
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the fast tests where -m names them: to look at all tests takes half a second."""
    for item in items if "fast" in config.getoption("markexpr") else ():
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
    seen: set[str] = set()
    pending = [module]
    while pending:
        names = imported(pending.pop()) - seen
        if any({name, name.partition(".")[0]} & STARTERS for name in names):
            return True
        seen |= names
        pending += [sys.modules[name] for name in names if _is_of_tests(sys.modules.get(name))]
    return False


def imported(module: ModuleType) -> set[str]:
    """The modules that it imports, or from which it imports a function or a class."""
    names = [getattr(value, "__module__", None) for value in vars(module).values()]
    names += [value.__name__ for value in vars(module).values() if isinstance(value, ModuleType)]
    return {name for name in names if isinstance(name, str)}


def _is_of_tests(module: ModuleType | None) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).is_relative_to(TESTS)
