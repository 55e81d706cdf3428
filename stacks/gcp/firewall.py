"""The firewall: SSH from the operator, all traffic between the hosts, nothing else."""

from __future__ import annotations

import pulumi
from pulumi_gcp import compute

from ..config.settings import ClusterConfig
from .labels import description, tag
from .network import Network
from .zone import Location

ALLOW, DENY = 900, 910  # before other rules of the network, whose default priority is 1000


def make_rules(
    config: ClusterConfig, location: Location, network: Network, parent: pulumi.Resource
) -> list[compute.Firewall]:
    """SSH from `ssh_cidrs`, all traffic inside the cluster, and nothing else.

    An existing network may allow more, as `default` allows SSH from everywhere: a rule denies
    everything else to these hosts.
    """
    ssh = compute.FirewallAllowArgs(protocol="tcp", ports=["22"])
    rules = [
        _rule(
            config, location, network, parent, "ssh",
            allows=[ssh], priority=ALLOW, source_ranges=list(config.ssh_cidrs),
        ),
        _rule(
            config, location, network, parent, "inside",
            allows=[compute.FirewallAllowArgs(protocol="all")], priority=ALLOW,
            source_tags=[tag(config)],
        ),
    ]  # fmt: skip
    if not network.own:
        deny = compute.FirewallDenyArgs(protocol="all")
        rules.append(
            _rule(
                config, location, network, parent, "nothing-else",
                denies=[deny], priority=DENY, source_ranges=["0.0.0.0/0"],
            )
        )  # fmt: skip
    return rules


def _rule(
    config: ClusterConfig,
    location: Location,
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
        project=location.project,
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
