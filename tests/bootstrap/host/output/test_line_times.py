"""The time of a record is that of its line, by the clock of the chief."""

from __future__ import annotations

import json
import time

import pytest
from standins.runs.supervisor_here import SupervisorHere

RECORD = b'@railhead {"kind": "progress", "step": 1}'


def times(run: SupervisorHere) -> list[float]:
    lines = (run.folder / "results/metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["time"] for line in lines if "progress" in line]


def test_a_record_that_comes_late_has_the_time_of_its_line(supervised: SupervisorHere) -> None:
    now = time.time()
    for printed in (now - 5, now + 3600, now - 86400):  # of a clock that was set back, or ahead
        supervised.output.add_line(0, RECORD, printed)
    late, ahead, old = times(supervised)
    assert late == now - 5
    assert now <= ahead < now + 60 and now - 600 <= old < now - 540


def test_the_clock_of_another_host_is_compared_with_its_quickest_line(
    supervised: SupervisorHere,
) -> None:
    """Its clock is 100 s ahead; the second line came 5 s late."""
    now = time.time()
    supervised.output.add_line(1, RECORD, now + 100)
    supervised.output.add_line(1, RECORD, now + 95)
    assert times(supervised) == pytest.approx([now, now - 5], abs=0.5)
