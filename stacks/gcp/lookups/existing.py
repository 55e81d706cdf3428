"""The machines of this cluster that Compute has: their zone, and those that are not in Pulumi's
state."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pulumi

from ... import cluster_id, names
from ...component.logical_names import LogicalNames
from ...config.settings import ClusterConfig
from ..labels import CLUSTER, ID, OWNER
from .rest import Google, LookupFailed

Listed = Mapping[str, Any]  # a machine, as Compute lists it


def check_names(config: ClusterConfig, own_id: str, google: Google | None) -> None:
    """Refuse names that machines of another stack have: Google allows each once in a project.
    ConfigError: there are such machines."""
    if google is None:
        return
    try:
        listed = [machine for _, machine in _machines(google, f"labels.{CLUSTER}={config.name}")]
        own_names = {machine["name"] for machine in listed if _labels(machine).get(ID) == own_id}
        needed = names.needed(config) - own_names
        others = [_described(machine) for machine in listed if machine.get("name") in needed]
        names.refuse(
            config, others, lambda name: any(_machines(google, f"labels.{CLUSTER}={name}"))
        )
    except LookupFailed as why:
        pulumi.log.warn(f"the names of machines are not checked: {why}")


def _labels(machine: Listed) -> Mapping[str, str]:
    labels: Mapping[str, str] = machine.get("labels", {})
    return labels


def _described(machine: Listed) -> names.Machine:
    name, labels = str(machine.get("name")), _labels(machine)
    return names.Machine(
        name, str(machine.get("id", name)), labels.get(OWNER), cluster_id=labels.get(ID)
    )


def zone(config: ClusterConfig, own_id: str, google: Google | None) -> str | None:
    """The zone of the region that has machines of this stack: new ones join them. None if
    there are none, or Compute does not list them."""
    if google is None:
        return None
    try:
        listed = list(_machines(google, f"labels.{ID}={own_id}"))
    except LookupFailed as why:
        pulumi.log.warn(f"the machines of this stack cannot be listed: {why}")
        return None
    needed = names.needed(config)
    zones = sorted(where for where, machine in listed if machine.get("name") in needed)
    return next((zone for zone in zones if zone.rpartition("-")[0] == config.region), None)


def not_twice(logical: LogicalNames, own_id: str, google: Google | None) -> pulumi.ResourceHook:
    """A hook before each creation of a machine: as in `cluster_id.not_twice`. Compute itself
    refuses a second machine of a name, in the same zone."""

    async def machines_of(number: str) -> list[str]:
        ids = await asyncio.to_thread(_listed, google, own_id) if google else []
        return [machine for machine in ids if machine.endswith(f"-{number}")]

    return cluster_id.not_twice(logical, machines_of)


def name_others(
    own_id: pulumi.Output[str], made: Sequence[pulumi.Output[str]], google: Google | None
) -> pulumi.Output[list[str]]:
    """Warn of machines with this stack's id that are not among `made`: a killed `up` left them, or
    this one removes them at its end. Returns those of `made` that do not exist. `made` are ids:
    projects/P/zones/Z/instances/NAME."""
    if google is None or pulumi.runtime.is_dry_run():
        return pulumi.Output.from_input([])

    async def warn(values: list[str]) -> list[str]:
        try:
            ids = await asyncio.to_thread(_listed, google, values[0])
        except LookupFailed as why:
            pulumi.log.info(f"machines with this stack's id cannot be counted: {why}")
            return []
        return cluster_id.warn_of_others(ids, values[1:])

    every: pulumi.Output[list[str]] = pulumi.Output.all(own_id, *made)
    return every.apply(warn)  # it accepts a coroutine, like any awaitable


def machine_names(google: Google, own_id: str) -> list[str]:
    """The names of the machines with this stack's id."""
    machines = _machines(google, f"labels.{ID}={own_id}")
    return sorted(str(machine.get("name")) for _, machine in machines)


def _listed(google: Google, own_id: str) -> list[str]:
    """The ids of the machines with this stack's id."""
    machines = _machines(google, f"labels.{ID}={own_id}")
    path = f"projects/{google.project}/zones"
    return [f"{path}/{where}/instances/{machine.get('name')}" for where, machine in machines]


def _machines(google: Google, condition: str) -> Iterator[tuple[str, Listed]]:
    """The zone of each machine of the project that passes a filter, and the machine."""
    for where, listed in google.pages("aggregated/instances", condition):
        for machine in listed.get("instances", ()):
            yield where.removeprefix("zones/"), machine
