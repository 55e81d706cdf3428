"""The firewall: SSH from the operator, all traffic between the hosts, nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
from pulumi_gcp import compute

from ..component import computed
from ..component.logical_names import named
from ..component.parts import keeping, unique
from ..config.settings import ClusterConfig
from .labels import tag
from .zone import Location

ALLOW, DENY = 900, 910  # before other rules of the network, whose default priority is 1000


def make_rules(
    config: ClusterConfig,
    location: Location,
    network: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
    *,
    others: bool,
) -> list[compute.Firewall]:
    """SSH from `ssh_cidrs`, all traffic inside the cluster, and nothing else. `others`: the network
    may have rules of others, as `default` allows SSH from everywhere. Then a rule denies everything
    else to these hosts."""
    ssh = compute.FirewallAllowArgs(protocol="tcp", ports=["22"])
    rules = [
        _rule(
            config, location, network, opts, "ssh",
            allows=[ssh], priority=ALLOW,
            source_ranges=[cidr for _, cidr in computed.networks(config)],
        ),
        _rule(
            config, location, network, opts, "inside",
            allows=[compute.FirewallAllowArgs(protocol="all")], priority=ALLOW,
            source_tags=[tag(config)],
        ),
    ]  # fmt: skip
    if others:
        deny = compute.FirewallDenyArgs(protocol="all")
        rules.append(
            _rule(
                config, location, network, opts, "nothing-else",
                denies=[deny], priority=DENY, source_ranges=["0.0.0.0/0"],
            )
        )  # fmt: skip
    return rules


def _rule(
    config: ClusterConfig,
    location: Location,
    network: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
    name: str,
    *,
    priority: int,
    allows: list[compute.FirewallAllowArgs] | None = None,
    denies: list[compute.FirewallDenyArgs] | None = None,
    source_ranges: Sequence[pulumi.Input[str]] | None = None,
    source_tags: list[str] | None = None,
) -> compute.Firewall:
    return compute.Firewall(
        named(opts, name),
        name=unique(config.name, name),
        project=location.project,
        network=network,
        direction="INGRESS",
        priority=priority,
        allows=allows,
        denies=denies,
        source_ranges=source_ranges,
        source_tags=source_tags,
        target_tags=[tag(config)],
        opts=keeping(opts, "name"),
    )
