"""A skip that tests/skips.txt does not allow fails a run of the whole suite in CI.

Each line of the file is `path or pattern: part of the reason`. It is a pytest plugin;
tests/conftest.py loads it. Elsewhere than in CI skips are only reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).with_name("skips.txt")


def allowed() -> list[tuple[str, str]]:
    """(path, part of a reason) of each line."""
    lines = [line.strip() for line in FILE.read_text().splitlines()]
    kept = [line for line in lines if line and not line.startswith("#")]
    return [(path, reason.strip()) for path, _, reason in (line.partition(":") for line in kept)]


def unexpected(skips: Iterable[tuple[str, str]], rules: Iterable[tuple[str, str]]) -> list[str]:
    """The skips (path, reason) that no rule allows, as lines."""
    rules = list(rules)
    return sorted(
        f"{path}: {reason}"
        for path, reason in set(skips)
        if not any(fnmatch(path, known) and part in reason for known, part in rules)
    )


def _skips(reporter: Any) -> list[tuple[str, str]]:
    reports = reporter.stats.get("skipped", [])
    return [(r.nodeid.partition("::")[0], str(r.longrepr[2])) for r in reports]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run where a skip is not allowed."""
    config = session.config
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    whole = not (config.option.keyword or config.option.markexpr)
    if reporter is None or hasattr(config, "workerinput") or not (whole and os.environ.get("CI")):
        return
    if found := unexpected(_skips(reporter), allowed()):
        reporter.write_line("skips that tests/skips.txt does not allow:", red=True)
        for line in found:
            reporter.write_line(f"  {line}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
