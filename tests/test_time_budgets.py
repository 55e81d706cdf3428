"""The seconds of the tests by file and folder, and their budgets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import pytest
import time_budgets
from places import ROOT
from workers import unit

pytest_plugins = ["pytester"]


def test_seconds_are_summed_by_folder() -> None:
    durations = [
        ("tests/bootstrap/ssh/test_a.py::test_1[x/y]", 2.0),
        ("tests/bootstrap/ssh/test_a.py::test_1[x/y]", 0.5),
        ("tests/stacks/aws/test_b.py::test_2", 4.0),
        ("tests/test_docs.py::test_3", 1.0),
    ]
    sums = {"tests/bootstrap": 2.5, "tests/stacks": 4.0, "tests": 1.0}
    assert time_budgets.by_folder(durations) == sums


@pytest.mark.parametrize(
    ("seconds", "limits", "over"),
    [
        (59.0, {}, False),  # a busy machine
        (61.0, {}, True),
        (61.0, {"tests/a.py": 40.0}, False),
        (81.0, {"tests/a.py": 40.0}, True),
    ],
)
def test_a_file_over_its_budget_is_named(
    seconds: float, limits: Mapping[str, float], over: bool
) -> None:
    found = time_budgets.over_budget({"tests/a.py": seconds, "tests/b.py": 1.0}, limits)
    assert [line.partition(":")[0] for line in found] == (["tests/a.py"] if over else [])


def test_each_budget_is_of_a_file_that_exists_and_over_the_limit() -> None:
    limits = time_budgets.budgets()
    assert all((ROOT / file).is_file() for file in limits)
    assert all(seconds > time_budgets.LIMIT for seconds in limits.values())


@pytest.mark.parametrize(("limit", "code"), [(0.0, 1), (60.0, 0)])
def test_a_run_with_a_file_over_its_budget_fails(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, limit: float, code: int
) -> None:
    """The processes that a test has waited for are counted with it."""
    monkeypatch.setattr(time_budgets, "LIMIT", limit)
    monkeypatch.setattr(time_budgets, "SHORT", 0.0)
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    pytester.makepyfile(
        "import subprocess, sys\n"
        f"def test_busy():\n    subprocess.run([sys.executable, '-c', {busy!r}])"
    )
    outcome = pytester.inline_run("-p", "time_budgets", "-p", "no:cacheprovider")
    assert outcome.ret == code


def test_a_helper_of_several_files_is_counted_while_it_runs() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as helper:
        assert helper.stdout and helper.stdout.readline()
        assert time_budgets.seconds_of(helper.pid) >= 0.25
        helper.kill()
    assert time_budgets.seconds_of(helper.pid) == 0


def test_files_with_a_budget_come_first_and_then_the_folders_that_wait() -> None:
    nodes = ["tests/bootstrap/a.py::x", "tests/e2e/a.py::x", "tests/test_a.py::x"]
    order = sorted(nodes, key=lambda node: time_budgets.place(node, {"tests/test_a.py": 40.0}))
    assert order == [nodes[2], nodes[1], nodes[0]]


def test_files_that_one_worker_runs_have_the_place_of_their_sum() -> None:
    """Else a worker would begin them late, and run them when the others have ended."""
    cases = [file for file in time_budgets.budgets() if "cases_" in file]
    assert len(cases) > 1 and len({*map(unit, cases)}) == 1
    together = sum(time_budgets.budgets()[file] for file in cases)
    limits = {unit(cases[0]): together, "tests/test_a.py": together - 1}
    first, second = (
        time_budgets.place(f"{file}::x", limits) for file in (cases[-1], "tests/test_a.py")
    )
    assert first < second
