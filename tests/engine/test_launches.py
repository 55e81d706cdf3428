"""Simulated launches with the real commands: the first events of a random one, on a drawn cloud."""

from __future__ import annotations

from pathlib import Path

import pytest
from draws import SEED, drawn
from engine import launches

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
EVENTS = 4


def test_a_launch_ends_as_in_the_model(engine: Path, tmp_path: Path) -> None:
    cloud = drawn(launches.CLOUDS)
    with launches.serving(cloud) as fresh, fresh(tmp_path) as site:
        launches.check(engine, tmp_path, site, launches.steps_of(SEED, cloud)[:EVENTS])
