"""SIGKILL at random moments: some of the cases of kills.py, at other moments in each run."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from campaigns import kills

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SEED = int(os.environ.get("RAILHEAD_KILL_SEED") or random.randrange(10**6))


@pytest.mark.parametrize("cloud", kills.CLOUDS)
def test_a_kill_leaves_nothing_without_a_deadline_a_name_and_an_end(
    engine: Path, cloud: str
) -> None:
    """One scenario of each cloud, another in each run; RAILHEAD_KILL_SEED repeats a run."""
    victims, scenarios = len(kills.VICTIMS), kills.SCENARIOS
    # An up after Google stopped spot machines makes no call at which it could be killed.
    numbers = [n for n, name in enumerate(scenarios) if kills.MOST_CALLS[cloud][name]]
    number = numbers[SEED // victims % len(numbers)] + SEED % victims * len(scenarios)
    assert kills.run_cases(engine, range(number, number + 1), SEED, cloud) == 0


@pytest.mark.parametrize(
    ("cloud", "shares"),
    [("all", {"aws": range(2, 5), "gcp": range(2, 4)}), ("gcp", {"gcp": range(2, 7)})],
)
def test_one_command_has_cases_of_each_cloud(cloud: str, shares: dict[str, range]) -> None:
    assert kills.share_out(range(2, 7), cloud) == shares
