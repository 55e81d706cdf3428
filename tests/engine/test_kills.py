"""SIGKILL at random moments: some of the cases of kills.py, at other moments in each run."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from engine import kills

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SEED = int(os.environ.get("RAILHEAD_KILL_SEED") or random.randrange(10**6))


# The numbers of the scenarios of a cloud: Google's stand-in takes no machines away.
SCENARIOS = {"aws": (0, 1, 2, 3), "gcp": (0, 1, 3)}


@pytest.mark.parametrize("cloud", SCENARIOS)
@pytest.mark.parametrize("place", [0, 1])
def test_a_kill_leaves_nothing_without_a_deadline_a_name_and_an_end(
    engine: Path, cloud: str, place: int
) -> None:
    """Two scenarios of each cloud, others in each run; RAILHEAD_KILL_SEED repeats a run."""
    number = SCENARIOS[cloud][(SEED + place) % len(SCENARIOS[cloud])]
    number += SEED % len(kills.VICTIMS) * len(kills.SCENARIOS)
    assert kills.run_cases(engine, range(number, number + 1), SEED, cloud) == 0


@pytest.mark.parametrize(
    ("cloud", "shares"),
    [
        ("all", {"aws": range(2, 5), "gcp": range(2, 4)}),
        ("gcp", {"gcp": range(2, 7)}),
    ],
)
def test_one_command_has_cases_of_each_cloud(cloud: str, shares: dict[str, range]) -> None:
    assert kills.share_out(range(2, 7), cloud) == shares
