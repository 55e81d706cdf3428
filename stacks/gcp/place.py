"""Where in Google Cloud a cluster is: its project, region and the one zone of all its hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute

from stacks import machines
from stacks.rules import ConfigError
from stacks.settings import ClusterConfig


@dataclass(frozen=True)
class Place:
    """One zone of one project."""

    project: str
    region: str
    zone: str


def place(config: ClusterConfig, opts: pulumi.InvokeOptions) -> Place:
    """Where this cluster goes. Google lists a region's zones; our table says which have the card.

    Raises:
        ConfigError: no zone of the region is known to have it.
    """
    assert config.project and config.region
    zone = first_zone(config, _zones(config.project, config.region, opts))
    return Place(config.project, config.region, zone)


def first_zone(config: ClusterConfig, there_are: Sequence[str] | None) -> str:
    """The first zone of the config's choice, else of our table, that the region has.

    `there_are` is every zone, also one that is down today: an `up` in an outage must not move
    machines. None where Google would not say: then the table alone decides.
    """
    card, region = config.gpu_type, config.region
    assert card and region
    wanted = config.zones or machines.zones_with(card, region)
    if not wanted:
        raise ConfigError(
            f"zones: not set, and our table has no zones with {card}\n"
            f"  next: gcloud compute accelerator-types list --filter=name:{card}"
        )
    for zone in wanted:
        if there_are is None or zone in there_are:
            return zone
    raise ConfigError(
        f"zones: {region} has no {' and no '.join(wanted)}; it has {', '.join(there_are or ())}"
    )


def _zones(project: str, region: str, opts: pulumi.InvokeOptions) -> Sequence[str] | None:
    try:
        return compute.get_zones(project=project, region=region, opts=opts).names
    except Exception as error:  # that is what a failed invoke raises
        pulumi.log.warn(f"the zones of {region} cannot be listed, our table decides: {error}")
        return None
