"""SIGKILL at random moments: some of the cases of kills.py, at other moments in each run."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from engine import kills

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SEED = int(os.environ.get("RAILHEAD_KILL_SEED") or random.randrange(10**6))


@pytest.mark.parametrize("number", range(4))  # each scenario once
def test_a_kill_leaves_nothing_without_a_deadline_a_name_and_an_end(
    engine: Path, number: int
) -> None:
    """The seed is printed; RAILHEAD_KILL_SEED repeats it."""
    victim = SEED % len(kills.VICTIMS) * len(kills.SCENARIOS)
    assert kills.run_cases(engine, range(number + victim, number + victim + 1), SEED) == 0
