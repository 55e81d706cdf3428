"""Where the hosts go: one zone that sells the type, and a subnet in it.

A VPC that exists already has its subnets, and these decide too; in an own one we make it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2

from stacks.aws.asking import answered, zones_that_sell
from stacks.rules import ConfigError
from stacks.settings import ClusterConfig


@dataclass(frozen=True)
class Place:
    """A zone; `subnet` is the id of an existing one in it, or None where one has to be made."""

    zone: str
    subnet: str | None = None


def place(config: ClusterConfig, opts: pulumi.InvokeOptions) -> Place:
    """The first zone of the config's that sells the type, else the first of all that do.

    Raises:
        ConfigError: no zone does, or the existing VPC has no public subnet in one that does.
    """
    selling = zones_that_sell(config, opts)
    _warn_of_retirement(config, sold=bool(selling))
    if not selling:
        raise ConfigError(_sold_nowhere(config))
    wanted = [zone for zone in config.zones if zone in selling] if config.zones else selling
    if not wanted:
        raise ConfigError(
            f"zones: none of {', '.join(config.zones)} has {config.machine_type}; "
            f"in {config.region} there are {', '.join(selling)}"
        )
    return _in_network(config, wanted, opts) if config.network else Place(wanted[0])


def _in_network(config: ClusterConfig, zones: list[str] | tuple[str, ...],
                opts: pulumi.InvokeOptions) -> Place:  # fmt: skip
    """Hosts need an address that can be reached, so only subnets that give one count."""
    for zone in zones:
        filters = {
            "vpc-id": str(config.network),
            "availability-zone": zone,
            "map-public-ip-on-launch": "true",
        }
        found = _subnets(filters, opts)
        if found:
            return Place(zone, found[0])
    raise ConfigError(
        f"network: {config.network} has no subnet that gives public addresses in "
        f"{', '.join(zones)}, where {config.machine_type} is sold\n"
        f"  next: pulumi config rm network   # the cluster makes a VPC of its own; or: "
        "aws ec2 modify-subnet-attribute --map-public-ip-on-launch --subnet-id ..."
    )


def _subnets(filters: dict[str, str], opts: pulumi.InvokeOptions) -> list[str]:
    asked = [ec2.GetSubnetsFilterArgs(name=name, values=[it]) for name, it in filters.items()]
    answer = answered("ec2:DescribeSubnets", lambda: ec2.get_subnets(filters=asked, opts=opts))
    return sorted(answer.ids)


def _sold_nowhere(config: ClusterConfig) -> str:
    machine = config.machine
    assert machine
    why = "AWS has retired it" if machine.retired else "AWS does not sell it there, or not to you"
    other = machine.substitute or "g4dn.xlarge"
    return (
        f"machine_type: no zone of {config.region} has {machine.name}: {why}\n"
        f"  next: pulumi config set machine_type {other}"
    )


def _warn_of_retirement(config: ClusterConfig, *, sold: bool) -> None:
    machine = config.machine
    if sold and machine and machine.retired:
        pulumi.log.warn(
            f"{machine.name} is retired: AWS sells it only to some, and may end it; "
            f"instead: {machine.substitute}"
        )
