"""The zone of the hosts: one that offers the machine type, and in an existing VPC its subnet."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2

from ..config.settings import ClusterConfig
from ..config.validators import ConfigError
from .lookups.calls import lookup
from .lookups.offers import zones_with_type


@dataclass(frozen=True)
class Location:
    """A zone; `subnet` is the id of an existing one in it, None where the stack makes one."""

    zone: str
    subnet: str | None = None


def choose_location(config: ClusterConfig, opts: pulumi.InvokeOptions) -> Location:
    """The first configured zone that offers the type; without configured zones, the first of all.

    Raises:
        ConfigError: no zone offers it, or the existing VPC has no public subnet in such a zone.
    """
    offering = zones_with_type(config, opts)
    _warn_if_retired(config, offered=bool(offering))
    if not offering:
        raise ConfigError(_not_offered(config))
    wanted = [zone for zone in config.zones if zone in offering] if config.zones else offering
    if not wanted:
        raise ConfigError(
            f"zones: none of {', '.join(config.zones)} has {config.machine_type}; "
            f"in {config.region} there are {', '.join(offering)}\n"
            f"  next: pulumi config set zones {offering[0]}"
        )
    return _in_network(config, wanted, opts) if config.network else Location(wanted[0])


def _in_network(config: ClusterConfig, zones: list[str] | tuple[str, ...],
                opts: pulumi.InvokeOptions) -> Location:  # fmt: skip
    """A public subnet of the VPC: hosts need an address that is reachable from outside."""
    for zone in zones:
        filters = {
            "vpc-id": str(config.network),
            "availability-zone": zone,
            "map-public-ip-on-launch": "true",
        }
        found = _subnets(filters, opts)
        if found:
            return Location(zone, found[0])
    raise ConfigError(
        f"network: {config.network} has no subnet that gives public addresses in "
        f"{', '.join(zones)}, where {config.machine_type} is offered\n"
        f"  next: pulumi config rm network   # the stack makes a VPC; or: "
        "aws ec2 modify-subnet-attribute --map-public-ip-on-launch --subnet-id ..."
    )


def _subnets(values: dict[str, str], opts: pulumi.InvokeOptions) -> list[str]:
    filters = [
        ec2.GetSubnetsFilterArgs(name=name, values=[value]) for name, value in values.items()
    ]
    found = lookup("ec2:DescribeSubnets", lambda: ec2.get_subnets(filters=filters, opts=opts))
    return sorted(found.ids)


def _not_offered(config: ClusterConfig) -> str:
    machine = config.machine
    assert machine
    why = "AWS has retired it" if machine.retired else "AWS does not offer it there to this account"
    other = machine.substitute or "g4dn.xlarge"
    return (
        f"machine_type: no zone of {config.region} has {machine.name}: {why}\n"
        f"  next: pulumi config set machine_type {other}"
    )


def _warn_if_retired(config: ClusterConfig, *, offered: bool) -> None:
    machine = config.machine
    if offered and machine and machine.retired:
        pulumi.log.warn(
            f"{machine.name} is retired: AWS offers it to some accounts only, and may withdraw it; "
            f"instead: {machine.substitute}"
        )
