"""The zone of the hosts: one that offers the machine type, and in an existing VPC its subnet."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2

from ..config.settings import ClusterConfig
from ..next_command import rm, set_
from ..rules.validators import ConfigError
from .lookups.calls import lookup


@dataclass(frozen=True)
class Location:
    """A zone; `subnet` is the id of an existing one in it, None if the stack makes one. `others`
    are more zones of the region that the cluster could be in."""

    zone: str
    subnet: str | None = None
    others: tuple[str, ...] = ()


def choose_location(config: ClusterConfig, opts: pulumi.InvokeOptions) -> Location:
    """The first configured zone that offers the type; without configured zones, the first of all.
    Local Zones and Wavelength Zones, which cost more and offer less, are used only if configured.
    ConfigError: no zone offers it, or the existing VPC has no public subnet in such a zone."""
    offering = zones_with_type(config, opts)
    _warn_if_retired(config, offered=bool(offering))
    if not offering:
        raise _not_offered(config)
    ordinary = [zone for zone in offering if re.fullmatch(f"{config.region}[a-z]", zone)]
    candidates = [zone for zone in config.zones if zone in offering] if config.zones else ordinary
    if not candidates:
        named = f"none of {', '.join(config.zones)}" if config.zones else "no ordinary zone"
        raise ConfigError(
            f"zones: {named} has {config.machine_type}; "
            f"in {config.region} there are {', '.join(offering)}",
            set_("zones", (ordinary or offering)[0]),
        )
    subnets: Mapping[str, str | None] = dict.fromkeys(candidates)
    if config.network:
        subnets = _in_network(config, candidates, opts)
    (zone, subnet), *_ = subnets.items()
    others = ordinary if config.zones else subnets
    return Location(zone, subnet, tuple(other for other in others if other != zone))


def zones_with_type(config: ClusterConfig, opts: pulumi.InvokeOptions) -> tuple[str, ...]:
    """The zones of the region with the machine type, by name; empty if none offers it."""
    machine_type = ec2.GetInstanceTypeOfferingsFilterArgs(
        name="instance-type", values=[config.machine_type]
    )
    offerings = lookup(
        "ec2:DescribeInstanceTypeOfferings",
        lambda: ec2.get_instance_type_offerings(
            location_type="availability-zone", filters=[machine_type], opts=opts
        ),
    )
    return tuple(sorted(offerings.locations))


def _in_network(
    config: ClusterConfig, zones: Sequence[str], opts: pulumi.InvokeOptions
) -> dict[str, str]:
    """A public subnet of the VPC for each zone with one: hosts need an address that is reachable
    from outside."""
    public = {"vpc-id": str(config.network), "map-public-ip-on-launch": "true"}
    each = {zone: _subnets({**public, "availability-zone": zone}, opts) for zone in zones}
    if subnets := {zone: ids[0] for zone, ids in each.items() if ids}:
        return subnets
    raise ConfigError(
        f"network: {config.network} has no subnet that gives public addresses in "
        f"{', '.join(zones)}, where {config.machine_type} is offered",
        rm("network"),
        "  # the stack makes a VPC; or:",
        "aws ec2 modify-subnet-attribute --map-public-ip-on-launch --subnet-id ...",
    )


def _subnets(values: dict[str, str], opts: pulumi.InvokeOptions) -> list[str]:
    filters = [
        ec2.GetSubnetsFilterArgs(name=name, values=[value]) for name, value in values.items()
    ]
    subnets = lookup("ec2:DescribeSubnets", lambda: ec2.get_subnets(filters=filters, opts=opts))
    return sorted(subnets.ids)


def _not_offered(config: ClusterConfig) -> ConfigError:
    machine = config.machine
    assert machine
    why = "AWS has retired it" if machine.retired else "AWS does not offer it there to this account"
    other = machine.substitute or "g4dn.xlarge"
    return ConfigError(
        f"machine_type: no zone of {config.region} has {machine.name}: {why}",
        set_("machine_type", other),
    )


def _warn_if_retired(config: ClusterConfig, *, offered: bool) -> None:
    machine = config.machine
    if offered and machine and machine.retired:
        pulumi.log.warn(
            f"{machine.name} is retired: AWS offers it to some accounts only, and may withdraw it; "
            f"instead: {machine.substitute}"
        )
