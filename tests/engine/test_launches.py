"""Simulated launches with the real commands: the first events of a random one, on a drawn cloud."""

from __future__ import annotations

from pathlib import Path

import pytest
from draws import SEED, drawn

from campaigns.launches import on_the_engine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
EVENTS = 4


def test_a_launch_ends_as_in_the_model(engine: Path, tmp_path: Path) -> None:
    cloud = drawn(on_the_engine.CLOUDS)
    with on_the_engine.serving(cloud) as fresh, fresh(tmp_path) as site:
        on_the_engine.check(engine, tmp_path, site, on_the_engine.steps_of(SEED, cloud)[:EVENTS])
