"""The receipt of a teardown: what stays on the hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.lifecycle import teardown


@pytest.mark.parametrize(("count", "named", "earlier"), [(0, 0, 0), (3, 3, 0), (5, 3, 2)])
def test_the_newest_runs_are_named_and_earlier_ones_counted(
    home: Path, count: int, named: int, earlier: int
) -> None:
    inventory = Inventory("hosts", hosts=(Host("a", "192.0.2.1"), Host("b", "192.0.2.2")))
    runs = [f"20261127-12000{number}-000{number}" for number in range(count)]
    lines = teardown._kept(inventory, runs[::-1])
    texts = [line.text for line in lines]
    assert {line.host for line in lines} <= {"a"}
    assert [run for run in runs if any(run in text for text in texts)] == runs[count - named :]
    counted = [text for text in texts if text.startswith(f"keeps the results of {earlier} earlier")]
    assert len(texts) == named + len(counted) and len(counted) == (earlier > 0)
