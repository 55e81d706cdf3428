"""`fab prune` removes old runs, and never one that is needed."""

from __future__ import annotations

import pytest

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
