"""The seconds of the tests by folder, and their budgets."""

from __future__ import annotations

from pathlib import Path

import time_budgets


def test_seconds_are_summed_by_folder() -> None:
    durations = [
        ("tests/bootstrap/test_a.py::test_1[x/y]", 2.0),
        ("tests/bootstrap/test_a.py::test_1[x/y]", 0.5),
        ("tests/stacks/aws/test_b.py::test_2", 4.0),
        ("tests/test_docs.py::test_3", 1.0),
    ]
    sums = {"tests/bootstrap": 2.5, "tests/stacks": 4.0, "tests": 1.0}
    assert time_budgets.spent(durations) == sums


def test_a_folder_over_its_budget_is_marked() -> None:
    first, second = time_budgets.lines(
        {"tests/a": 61, "tests/b": 60}, {"tests/a": 60, "tests/b": 60}
    )
    assert first.endswith("61 s of 60 s: over its budget") and second.endswith("60 s of 60 s")


def test_the_slowest_files_come_first_in_the_list() -> None:
    durations = [("tests/a.py::x", 1.0), ("tests/b.py::x", 1.5), ("tests/a.py::y", 1.0)]
    assert time_budgets.slowest_files(durations) == [("tests/a.py", 2.0), ("tests/b.py", 1.5)]


def test_folders_of_long_files_are_begun_first() -> None:
    nodes = ["tests/bootstrap/a", "tests/e2e/a", "tests/test_a", "tests/training/a"]
    assert sorted(nodes, key=time_budgets.place) == [nodes[3], nodes[1], nodes[0], nodes[2]]


def test_every_folder_of_tests_has_a_budget() -> None:
    tests = Path(__file__).parent
    folders = {path.relative_to(tests).parts[0] for path in tests.glob("*/**/test_*.py")}
    assert time_budgets.budgets().keys() == {f"tests/{name}" for name in folders - {"cloud"}} | {
        "tests"
    }
