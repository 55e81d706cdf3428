"""The electricity of the regions that a stack may be in."""

from __future__ import annotations

import re
from datetime import date, timedelta

from places import ROOT

from bootstrap.plan.grid import grid_of
from stacks.clouds import CLOUDS
from stacks.machine_types import gcp as machine_types

FILE = ROOT / "bootstrap/plan/grid.csv"


def test_a_region_has_the_grid_of_its_place() -> None:
    east, frankfurt, iowa = (
        grid_of("aws", "us-east-1"),
        grid_of("aws", "eu-central-1"),
        grid_of("gcp", "us-central1"),
    )
    assert east and frankfurt and iowa
    assert (east.g_per_kwh, east.pue, east.place) == (418, 1.135, "US-MIDA-PJM")
    assert (frankfurt.g_per_kwh, iowa.pue) == (342, 1.1)
    assert east.year == 2025


def test_what_is_not_known_is_none() -> None:
    assert grid_of("aws", "us-central1") is None
    assert grid_of("local", None) is None and grid_of("hosts", "us-east-1") is None


def test_the_regions_of_defaults_and_of_gpus_are_there() -> None:
    defaults = {(name, cloud.key_defaults.get("region")) for name, cloud in CLOUDS.items()}
    gpus = {("gcp", region) for regions in machine_types.ZONES.values() for region in regions}
    known = {(cloud, region) for cloud, region in defaults | gpus if region}
    assert len(known) > 10
    assert [pair for pair in sorted(known) if grid_of(*pair) is None] == []


def test_the_file_names_its_licence_and_is_younger_than_a_year() -> None:
    text = FILE.read_text()
    assert "ODbL" in text and "Electricity Maps" in text
    day = re.search(r"read (\d{4}-\d\d-\d\d)", text)
    assert day and date.today() - date.fromisoformat(day[1]) < timedelta(366)
