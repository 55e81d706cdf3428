"""`fab prune` removes old runs, and never one that is needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bootstrap.workflows import prune
from bootstrap.workflows.prune import old_runs

IDS = [f"2026112{day}-101500-00{day}f" for day in range(1, 6)]

CASES = {
    "the newest stay": (IDS, 2, (), IDS[:3]),
    "all": (IDS, 0, (), IDS),
    "fewer than are kept": (IDS, 9, (), []),
    "exactly as many": (IDS, 5, (), []),
    "in any order": (IDS[::-1], 4, (), IDS[:1]),
    "a needed one stays": (IDS, 2, (IDS[1],), [IDS[0], IDS[2]]),
    "other names stay": (["health", "..", "-rf", "a b", *IDS], 4, (), IDS[:1]),
}


@pytest.mark.parametrize("names, keep, needed, removed", CASES.values(), ids=CASES)
def test_only_old_runs_that_nobody_needs_are_removed(
    names: list[str], keep: int, needed: tuple[str, ...], removed: list[str]
) -> None:
    assert old_runs(names, keep, needed) == removed


def test_a_run_that_is_going_on_keeps_its_folder() -> None:
    typed: list[str] = []

    class Chief:
        """Stands for the session of a host with all runs."""

        def facts(self) -> Any:
            return SimpleNamespace(run_processes=[SimpleNamespace(run_id=IDS[1])])

        def shell(self, command: str) -> tuple[list[str], int]:
            typed.append(command)
            return IDS, 0

    chief: Any = Chief()
    assert prune._prune_host(chief, 2, [IDS[2]]) == [IDS[0]]
    assert typed[1].endswith(f"rm -rf -- {IDS[0]}")
