"""The order of the tests, and after a run the seconds of each folder, beside its budget.

The budgets are in docs/contributing.md. It is a pytest plugin; tests/conftest.py loads it. A folder
over its budget is marked, and fails nothing: a busy machine is not an error.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs/contributing.md"
LEAST = 30.0  # seconds; a shorter run of some tests needs no list
# With the longest files first, no worker is left with a long one at the end.
FIRST = ("tests/training/", "tests/test_transcripts.py", "tests/e2e/", "tests/engine/")
SLOWEST = 25  # files


def budgets() -> dict[str, float]:
    """Seconds for each folder of tests, from the page."""
    rows = re.findall(r"^\| `(tests[\w/]*)`[^|]* \| (\d+) s \|", PAGE.read_text(), re.M)
    return {folder: float(seconds) for folder, seconds in rows}


def spent(durations: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The seconds of each folder, from (node id, seconds); tests/test_x.py is in `tests`."""
    files = [(file.split("/"), seconds) for file, seconds in by_file(durations).items()]
    return summed(("/".join(parts[: min(2, len(parts) - 1)]), s) for parts, s in files)


def slowest_files(durations: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """The files with the most seconds, the slowest first."""
    return sorted(by_file(durations).items(), key=lambda item: -item[1])[:SLOWEST]


def by_file(durations: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The seconds of each file."""
    return summed((node.partition("::")[0], seconds) for node, seconds in durations)


def summed(rows: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The sum of each name."""
    sums: dict[str, float] = defaultdict(float)
    for name, seconds in rows:
        sums[name] += seconds
    return dict(sums)


def place(node: str) -> int:
    """The place of a test's folder in the order."""
    return next((n for n, folder in enumerate(FIRST) if node.startswith(folder)), len(FIRST))


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Put them in order."""
    items.sort(key=lambda item: place(item.nodeid))


def lines(sums: Mapping[str, float], limits: Mapping[str, float]) -> list[str]:
    """One line for each folder."""
    return [
        f"{folder:<16} {seconds:6.0f} s of {limits[folder]:.0f} s"
        + (": over its budget" if seconds > limits[folder] else "")
        for folder, seconds in sorted(sums.items())
        if folder in limits
    ]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the list at the end."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    durations = [(r.nodeid, r.duration) for r in reports if hasattr(r, "duration")]
    sums = spent(durations)
    if sum(sums.values()) < LEAST:
        return
    terminalreporter.section("seconds of the tests by folder")
    for line in lines(sums, budgets()):
        terminalreporter.line(line)
    for file, seconds in slowest_files(durations):
        terminalreporter.line(f"{seconds:6.0f} s  {file}")
