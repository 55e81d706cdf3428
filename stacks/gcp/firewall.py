"""Who may reach the hosts: the operator by ssh, and they each other."""

from __future__ import annotations

import ipaddress

import pulumi
from pulumi_gcp import compute

from stacks.gcp.labels import description, tag
from stacks.gcp.network import Network
from stacks.gcp.place import Place
from stacks.rules import ConfigError
from stacks.settings import ClusterConfig

ALLOW, DENY = 900, 910  # before whatever else a network allows, which has 1000 or later


def check(config: ClusterConfig) -> None:
    """Refuse networks that could never connect.

    Raises:
        ConfigError: an IPv6 network; the hosts have IPv4 addresses only.
    """
    for cidr in config.ssh_cidrs:
        if ipaddress.ip_network(cidr).version == 6:
            raise ConfigError(f"ssh_cidrs: {cidr} is IPv6; hosts on gcp have IPv4 addresses only")


def firewall(
    config: ClusterConfig, place: Place, network: Network, parent: pulumi.Resource
) -> list[compute.Firewall]:
    """Ssh from the config's networks, everything inside the cluster, and nothing else.

    A network that was there may allow more, as `default` does with ssh from everywhere: there
    everything else is denied to these hosts.
    """
    ssh = compute.FirewallAllowArgs(protocol="tcp", ports=["22"])
    rules = [
        _rule(
            config, place, network, parent, "ssh",
            allows=[ssh], priority=ALLOW, source_ranges=list(config.ssh_cidrs),
        ),
        _rule(
            config, place, network, parent, "inside",
            allows=[compute.FirewallAllowArgs(protocol="all")], priority=ALLOW,
            source_tags=[tag(config)],
        ),
    ]  # fmt: skip
    if not network.own:
        deny = compute.FirewallDenyArgs(protocol="all")
        rules.append(
            _rule(
                config, place, network, parent, "nothing-else",
                denies=[deny], priority=DENY, source_ranges=["0.0.0.0/0"],
            )
        )  # fmt: skip
    return rules


def _rule(
    config: ClusterConfig,
    place: Place,
    network: Network,
    parent: pulumi.Resource,
    name: str,
    *,
    priority: int,
    allows: list[compute.FirewallAllowArgs] | None = None,
    denies: list[compute.FirewallDenyArgs] | None = None,
    source_ranges: list[str] | None = None,
    source_tags: list[str] | None = None,
) -> compute.Firewall:
    return compute.Firewall(
        f"{config.name}-{name}",
        project=place.project,
        network=network.network,
        description=description(config),
        direction="INGRESS",
        priority=priority,
        allows=allows,
        denies=denies,
        source_ranges=source_ranges,
        source_tags=source_tags,
        target_tags=[tag(config)],
        opts=pulumi.ResourceOptions(parent=parent),
    )
