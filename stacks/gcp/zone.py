"""The project, region and zone of a cluster: all its hosts are in one zone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute

from ..config.settings import ClusterConfig
from ..machine_types import gcp as machine_types
from ..next_command import rm, set_
from ..rules.validators import ConfigError
from .lookups import existing as existing_machines
from .lookups.rest import Google, LookupFailed


@dataclass(frozen=True)
class Location:
    """One zone of one project; `others` are more zones of the region that have the machines."""

    project: str
    region: str
    zone: str
    others: tuple[str, ...] = ()


def choose_location(
    config: ClusterConfig, own_id: str, google: Google | None, opts: pulumi.InvokeOptions
) -> Location:
    """The location of this cluster. The zone of its existing machines comes first, unless the
    config names zones; then Compute's lists, then our table. ConfigError: no zone of the region is
    known to have the machines."""
    assert config.project and config.region
    offering = zones_with_machines(config, google)
    existing = _zones(config.project, config.region, opts)
    zone = first_zone(config, existing, offering)
    if not config.zones:  # a change in Compute's lists must not move machines
        zone = existing_machines.zone(config, own_id, google) or zone
    others = tuple(z for z in _offering_here(config, offering, existing) if z != zone)
    return Location(config.project, config.region, zone, others)


def zones_with_machines(config: ClusterConfig, google: Google | None) -> tuple[str, ...] | None:
    """All zones with the machine type, and for n1 with its GPUs; None: Compute lists none."""
    if google is None:
        return None
    kinds = [("machineTypes", config.machine_type)]
    if config.machine_type in machine_types.N1:
        kinds.append(("acceleratorTypes", str(config.gpu_type)))
    try:
        by_kind = [set(_offering(google, *kind, config.gpu_count or 1)) for kind in kinds]
    except LookupFailed as why:
        pulumi.log.warn(f"Compute does not list its machines, our table decides: {why}")
        return None
    return tuple(sorted(set.intersection(*by_kind)))


def _offering(google: Google, kind: str, name: str, cards: int) -> Iterator[str]:
    for zone, listed in google.pages(f"aggregated/{kind}", f"name={name}"):
        for offer in listed.get(kind, ()):
            state = offer.get("deprecated", {}).get("state", "ACTIVE")
            enough = offer.get("maximumCardsPerInstance", cards) >= cards
            if offer.get("name") == name and state == "ACTIVE" and enough:
                yield zone.removeprefix("zones/")


def first_zone(
    config: ClusterConfig, existing: Sequence[str] | None, offering: Sequence[str] | None
) -> str:
    """The first configured zone, else the first of all, that has the machines. `existing` is every
    zone of the region, also one that is down: an `up` during an outage must not move machines.
    `offering` is every zone of Google with the machines. None if Google did not answer: then our
    table decides which zones have them, and a configured zone is not checked."""
    assert config.region
    here = _offering_here(config, offering, existing)
    candidates = config.zones or here
    if not candidates:
        raise ConfigError(
            f"zones: not set, and our table has no zones of {config.region} with {_what(config)}",
            _list_command(config),
        )
    for zone in candidates:
        if (existing is None or zone in existing) and (offering is None or zone in here):
            return zone
    has = here if offering is not None else existing or ()
    raise ConfigError(
        f"zones: {' and '.join(candidates)} {'has' if len(candidates) == 1 else 'have'} no "
        f"{_what(config)}; in {config.region} there are {', '.join(has)}",
        rm("zones"),
    )


def _offering_here(
    config: ClusterConfig, offering: Sequence[str] | None, existing: Sequence[str] | None
) -> tuple[str, ...]:
    """The zones of the region with the machines, as far as is known."""
    region, machine = str(config.region), config.machine
    if offering is None:
        gpu = machine.gpu if machine else None
        return machine_types.zones_with(gpu, region) if gpu else tuple(existing or ())
    here = tuple(zone for zone in offering if zone.rpartition("-")[0] == region)
    if not here:
        regions = sorted({zone.rpartition("-")[0] for zone in offering})
        other_region = set_("region", regions[0]) if regions else _list_command(config)
        raise ConfigError(
            f"region: no zone of {region} has {_what(config)}; regions that have it: "
            f"{', '.join(regions) or 'none for this project'}",
            other_region,
        )
    return here


def _what(config: ClusterConfig) -> str:
    gpu = f" with {config.gpu_type}" if config.machine_type in machine_types.N1 else ""
    return f"{config.machine_type}{gpu}"


def _list_command(config: ClusterConfig) -> str:
    kind, name = "machine-types", config.machine_type
    if name in machine_types.N1:
        kind, name = "accelerator-types", str(config.gpu_type)
    return f"gcloud compute {kind} list --filter=name:{name} --project {config.project}"


def _zones(project: str, region: str, opts: pulumi.InvokeOptions) -> Sequence[str] | None:
    try:
        return compute.get_zones(project=project, region=region, opts=opts).names
    except Exception as error:  # the type that a failed invoke raises
        pulumi.log.warn(f"the zones of {region} cannot be listed, our table decides: {error}")
        return None
