"""The electricity of a cloud's region, from grid.csv and the PUE of the cloud. Pure.

grid.csv names its source, its day and its licence.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from railhead.documents.carbon.energy import Grid

SOURCE = "Electricity Maps"
# PUE: the energy of a data centre for each unit that its machines use. From Cloud Carbon Footprint
# (Apache-2.0), read 2026-04.
PUE = {"aws": 1.135, "gcp": 1.1}


def grid_of(cloud: str, region: str | None) -> Grid | None:
    """The electricity of a region; None if it is not known, as for your own machines."""
    return _grids().get((cloud, region or ""))


@cache
def _grids() -> dict[tuple[str, str], Grid]:
    with Path(__file__).with_name("grid.csv").open() as file:
        rows = [*csv.DictReader(line for line in file if not line.startswith("#"))]
    return {
        (row["cloud"], row["region"]): Grid(
            float(row["g_per_kwh"]), PUE[row["cloud"]], row["zone"], int(row["year"]), SOURCE
        )
        for row in rows
    }
