"""Which zones have the machines: Compute's own lists, which count before our table."""

from __future__ import annotations

from collections.abc import Iterator

import pulumi

from ...config.settings import ClusterConfig
from ...machine_types.gcp import N1
from .rest import Google, LookupFailed


def zones(config: ClusterConfig, google: Google | None) -> tuple[str, ...] | None:
    """All zones with the machine type, and for n1 with its GPUs; None: Compute lists none."""
    if google is None:
        return None
    lists = [("machineTypes", config.machine_type)]
    if config.machine_type in N1:
        lists.append(("acceleratorTypes", str(config.gpu_type)))
    try:
        found = [set(_zones(google, *one, config.gpu_count or 1)) for one in lists]
    except LookupFailed as why:
        pulumi.log.warn(f"Compute does not list its machines, our table decides: {why}")
        return None
    return tuple(sorted(set.intersection(*found)))


def _zones(google: Google, kind: str, name: str, cards: int) -> Iterator[str]:
    for zone, listed in google.pages(f"aggregated/{kind}", f"name={name}"):
        for one in listed.get(kind, ()):
            state = one.get("deprecated", {}).get("state", "ACTIVE")
            enough = one.get("maximumCardsPerInstance", cards) >= cards
            if one.get("name") == name and state == "ACTIVE" and enough:
                yield zone.removeprefix("zones/")
