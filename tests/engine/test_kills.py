"""SIGKILL at random moments: some of the cases of kills.py, at other moments in each run."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from engine import kills

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SEED = int(os.environ.get("RAILHEAD_KILL_SEED") or random.randrange(10**6))


# On AWS each scenario once.
CASES = [("aws", number) for number in range(4)] + [("gcp", number) for number in (0, 1, 3)]


@pytest.mark.parametrize(("cloud", "number"), CASES)
def test_a_kill_leaves_nothing_without_a_deadline_a_name_and_an_end(
    engine: Path, cloud: str, number: int
) -> None:
    """The seed is printed; RAILHEAD_KILL_SEED repeats it."""
    victim = SEED % len(kills.VICTIMS) * len(kills.SCENARIOS)
    numbers = range(number + victim, number + victim + 1)
    assert kills.run_cases(engine, numbers, SEED, cloud) == 0


@pytest.mark.parametrize(
    ("cloud", "shares"),
    [
        ("all", {"aws": range(2, 5), "gcp": range(2, 4)}),
        ("gcp", {"gcp": range(2, 7)}),
    ],
)
def test_one_command_has_cases_of_each_cloud(cloud: str, shares: dict[str, range]) -> None:
    assert kills.share_out(range(2, 7), cloud) == shares
