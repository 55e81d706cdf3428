"""The project, region and zone of a cluster: all its hosts are in one zone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute

from stacks.gcp import machine_types
from stacks.settings import ClusterConfig
from stacks.validators import ConfigError


@dataclass(frozen=True)
class Location:
    """One zone of one project."""

    project: str
    region: str
    zone: str


def choose_location(config: ClusterConfig, opts: pulumi.InvokeOptions) -> Location:
    """The location of this cluster. Google lists a region's zones; our table has those with GPUs.

    Raises:
        ConfigError: no zone of the region is known to have the GPU type.
    """
    assert config.project and config.region
    zone = first_zone(config, _zones(config.project, config.region, opts))
    return Location(config.project, config.region, zone)


def first_zone(config: ClusterConfig, existing: Sequence[str] | None) -> str:
    """The first configured zone, else the first of our table, that the region has.

    `existing` is every zone, also one that is down: an `up` during an outage must not move
    machines. None where the zones cannot be listed: then the table alone decides.
    """
    gpu, region = config.gpu_type, config.region
    assert gpu and region
    wanted = config.zones or machine_types.zones_with(gpu, region)
    if not wanted:
        raise ConfigError(
            f"zones: not set, and our table has no zones with {gpu}\n"
            f"  next: gcloud compute accelerator-types list --filter=name:{gpu}"
        )
    for zone in wanted:
        if existing is None or zone in existing:
            return zone
    raise ConfigError(
        f"zones: {region} has no {' and no '.join(wanted)}; it has {', '.join(existing or ())}"
    )


def _zones(project: str, region: str, opts: pulumi.InvokeOptions) -> Sequence[str] | None:
    try:
        return compute.get_zones(project=project, region=region, opts=opts).names
    except Exception as error:  # the type that a failed invoke raises
        pulumi.log.warn(f"the zones of {region} cannot be listed, our table decides: {error}")
        return None
