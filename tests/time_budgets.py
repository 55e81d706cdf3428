"""The CPU seconds of each test file, and the files that may take many.

It is a pytest plugin; tests/conftest.py loads it. A file that takes more than LIMIT fails the run,
unless time_budgets.txt lists it with its budget. What counts is the CPU time of the worker,
of the processes that it has waited for, and of its helpers: it hardly depends on what else the
machine does.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from workers import unit

LIST = ROOT / "tests/time_budgets.txt"
LIMIT = 30.0  # CPU seconds of a file that LIST does not have
# On a busy machine the same work takes more CPU time (1.2 times at a load of 15), and the first
# test of a worker that uses what the session shares pays for it.
TOLERANCE = 2.0
FIRST = ("tests/e2e/", "tests/engine/", "tests/training/")  # they wait for minutes
SLOWEST = 25  # files in the list at the end
SHORT = 30.0  # seconds; a run of fewer needs no list
PROPERTY = "cpu seconds"


def budgets() -> dict[str, float]:
    """The CPU seconds of the files that may take more than LIMIT."""
    rows = re.findall(r"^(tests/[\w/]+\.py) (\d+)  ", LIST.read_text(), re.M)
    return {file: float(seconds) for file, seconds in rows}


def by_file(durations: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The seconds of each file, from (node id, seconds)."""
    return summed((node.partition("::")[0], seconds) for node, seconds in durations)


def by_folder(durations: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The seconds of each folder of tests/; tests/test_x.py is in `tests`."""
    files = [(file.split("/"), seconds) for file, seconds in by_file(durations).items()]
    return summed(("/".join(parts[: min(2, len(parts) - 1)]), s) for parts, s in files)


def summed(rows: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The sum of each name."""
    sums: dict[str, float] = defaultdict(float)
    for name, seconds in rows:
        sums[name] += seconds
    return dict(sums)


def over_budget(files: Mapping[str, float], limits: Mapping[str, float]) -> list[str]:
    """One line for each file that took more than it may."""
    return [
        f"{file}: {seconds:.0f} CPU seconds of {limits.get(file, LIMIT):.0f}"
        for file, seconds in sorted(files.items())
        if seconds > limits.get(file, LIMIT) * TOLERANCE
    ]


HELPERS: set[int] = set()  # processes that run for the tests of several files


def cpu_seconds() -> float:
    """Of this process, the children that it has waited for, and its helpers."""
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    return own + sum(map(seconds_of, HELPERS))


def seconds_of(process: int) -> float:
    """The CPU seconds of a process so far, with the children that it has waited for; 0 where there
    is none."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start first what takes longest: no worker is left alone with it at the end."""
    limits = summed((unit(file), seconds) for file, seconds in budgets().items())
    items.sort(key=lambda item: place(item.nodeid, limits))


def place(node: str, limits: Mapping[str, float]) -> tuple[float, bool]:
    """The place of a test in the order; `limits` is by unit (workers.py)."""
    return -limits.get(unit(node), 0), not node.startswith(FIRST)


SPENT = pytest.StashKey[float]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note the CPU time at the start of each test."""
    item.stash[SPENT] = cpu_seconds()
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Send the CPU time of a test with its last report."""
    if call.when == "teardown":
        item.user_properties.append((PROPERTY, cpu_seconds() - item.stash[SPENT]))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Print the lists, and fail the run where a file took more than it may."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return
    reports = [report for group in reporter.stats.values() for report in group]
    clock = [(r.nodeid, r.duration) for r in reports if hasattr(r, "duration")]
    cpu = [
        (r.nodeid, value)
        for r in reports
        if getattr(r, "when", "") == "teardown"
        for name, value in r.user_properties
        if name == PROPERTY
    ]
    if sum(seconds for _, seconds in clock) < SHORT:
        return
    print_seconds(reporter, by_folder(clock), by_folder(cpu), "seconds and CPU seconds by folder")
    files = by_file(cpu)
    slowest = sorted(by_file(clock).items(), key=lambda item: -item[1])[:SLOWEST]
    print_seconds(reporter, dict(slowest), files, "the slowest files")
    if found := over_budget(files, budgets()):
        reporter.section("files over their budget (tests/time_budgets.txt)", red=True)
        for line in found:
            reporter.line(line)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def print_seconds(
    reporter: Any, clock: Mapping[str, float], cpu: Mapping[str, float], title: str
) -> None:
    """One line for each name."""
    reporter.section(title)
    for name, seconds in clock.items():
        reporter.line(f"{seconds:6.0f} s {cpu.get(name, 0):6.0f} s CPU  {name}")
