"""A real training on a host whose disk is full for six seconds."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from e2e.local_hosts import (
    Operator,
    homes_of_hosts,
    json_lines_so_far,
    only_first_host,
    run_id,
    wait_until,
)
from e2e.small_disks import full, small_disk

FULL = 6.0  # seconds
EPOCHS = 400  # of 5 steps


@pytest.mark.root
@pytest.mark.slow
def test_a_training_goes_through_six_seconds_of_a_full_disk(operator: Operator) -> None:
    """All that a run writes is on that disk: records, logs, events, checkpoints, the state."""
    runs = min(homes_of_hosts(operator.home)) / ".railhead/runs"
    often = ("--set", "checkpoint_minutes=0.03", "--set", f"epochs={EPOCHS}")
    with only_first_host(operator), small_disk(runs) as disk:
        done = operator.fab("train", "--preset", "smoke", *often, "--detach").ended(0)
        run = run_id(done.out)

        def epochs(folder: Path = disk / run / "results") -> list[int]:
            metrics = folder / "metrics.jsonl"
            records = json_lines_so_far(metrics) if metrics.exists() else []
            return [record["epoch"] for record in records if record["kind"] == "epoch"]

        wait_until(lambda: len(epochs()) > 3, 100, "it trains")
        with full(disk):
            before = epochs()
            time.sleep(FULL)
            during = epochs()
        wait_until(lambda: len(epochs()) > len(during) + 2, 60, "it writes records again")
        operator.fab("attach", "--run", run, seconds=300).ended(0, "succeeded")
    found = epochs(operator.last)
    assert found[-1] == EPOCHS and len({*found}) == len(found), "each at most once"
    assert found[: len(before)] == before
    assert json.loads((operator.last / "evaluation.json").read_text())["samples"] == 360
    assert "attempts" not in operator.result(), "it was not started again"
