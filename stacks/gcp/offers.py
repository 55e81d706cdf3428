"""Which zones have the machines: Compute's own lists, which count before our table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pulumi

from stacks.gcp.machine_types import N1
from stacks.gcp.rest import Google, Unanswered
from stacks.settings import ClusterConfig


def zones(config: ClusterConfig, google: Google | None) -> tuple[str, ...] | None:
    """All zones with the machine type, for n1 those with its GPUs; None: Compute did not answer."""
    if google is None:
        return None
    kind, name = "machineTypes", config.machine_type
    if config.machine_type in N1:
        kind, name = "acceleratorTypes", str(config.gpu_type)
    try:
        return tuple(sorted(_zones(google, kind, name, config.gpu_count or 1)))
    except Unanswered as why:
        pulumi.log.warn(f"Compute does not list its {kind}, our table decides: {why}")
        return None


def _zones(google: Google, kind: str, name: str, cards: int) -> Iterator[str]:
    for zone, listed in _pages(google, f"projects/{google.project}/aggregated/{kind}",
                               name):  # fmt: skip
        for one in listed.get(kind, ()):
            state = one.get("deprecated", {}).get("state", "ACTIVE")
            enough = one.get("maximumCardsPerInstance", cards) >= cards
            if one.get("name") == name and state == "ACTIVE" and enough:
                yield zone.removeprefix("zones/")


def _pages(google: Google, path: str, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    query = {"filter": f"name={name}", "maxResults": "500"}
    for _ in range(50):
        page = google.get("compute", path, **query)
        yield from page.get("items", {}).items()
        if not page.get("nextPageToken"):
            return
        query["pageToken"] = page["nextPageToken"]
