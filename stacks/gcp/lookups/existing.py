"""The machines of this cluster that Compute has: their zone, and those that are in no state."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pulumi

from ... import cluster_id
from ...config.settings import ClusterConfig
from ..labels import CLUSTER, ID
from .rest import Google, LookupFailed


def zone(config: ClusterConfig, google: Google | None) -> str | None:
    """The zone of the region that has machines of this cluster: new ones join them. None where
    there are none, or Compute does not list them."""
    if google is None:
        return None
    names = {f"{config.name}-{number}" for number in range(1, config.count + 1)}
    try:
        found = list(_machines(google, f"labels.{CLUSTER}={config.name}"))
    except LookupFailed as why:
        pulumi.log.warn(f"the machines of this cluster cannot be listed: {why}")
        return None
    zones = sorted(where for where, name in found if name in names)
    return next((one for one in zones if one.rpartition("-")[0] == config.region), None)


def name_others(
    own_id: pulumi.Output[str], made: Sequence[pulumi.Output[str]], google: Google | None
) -> None:
    """Warn of machines with this stack's id that are not among `made`: a killed `up` left them, or
    this one removes them at its end. `made` are ids: projects/P/zones/Z/instances/NAME."""
    if google is None or pulumi.runtime.is_dry_run():
        return

    async def warn(values: list[str]) -> bool:
        try:
            found = await asyncio.to_thread(_listed, google, values[0])
        except LookupFailed as why:
            pulumi.log.info(f"machines with this stack's id cannot be counted: {why}")
            return False
        cluster_id.warn_of_others(found, values[1:])
        return True

    every: pulumi.Output[list[str]] = pulumi.Output.all(own_id, *made)
    every.apply(warn)  # type: ignore[arg-type]  # it accepts a coroutine, as any awaitable


def _listed(google: Google, own_id: str) -> list[str]:
    """The ids of the machines with this stack's id."""
    found = _machines(google, f"labels.{ID}={own_id}")
    return [f"projects/{google.project}/zones/{where}/instances/{name}" for where, name in found]


def _machines(google: Google, wanted: str) -> Iterator[tuple[str, str]]:
    """The zone and the name of each machine of the project that passes a filter."""
    for where, listed in google.pages("aggregated/instances", wanted):
        for one in listed.get("instances", ()):
            yield where.removeprefix("zones/"), str(one.get("name", ""))
