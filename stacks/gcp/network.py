"""The network of the hosts: a new one, or an existing one."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute

from ..config.settings import ClusterConfig
from ..config.validators import ConfigError
from .labels import description
from .zone import Location

RANGE = "10.164.0.0/20"


@dataclass(frozen=True)
class Network:
    """A network and its subnet in the cluster's region, as ids. `own`: created for this cluster."""

    network: pulumi.Input[str]
    subnet: pulumi.Input[str]
    own: bool


def make_network(config: ClusterConfig, location: Location, parent: pulumi.Resource) -> Network:
    """A network with one subnet and private access to Google's own services."""
    opts = pulumi.ResourceOptions(parent=parent)
    network = compute.Network(
        config.name,
        project=location.project,
        description=description(config),
        auto_create_subnetworks=False,
        routing_mode="REGIONAL",
        opts=opts,
    )
    # checkov:skip=CKV_GCP_26: flow logs are billed by the GB, and ranks send each other many
    subnet = compute.Subnetwork(
        config.name,
        project=location.project,
        region=location.region,
        network=network.id,
        description=description(config),
        ip_cidr_range=RANGE,
        private_ip_google_access=True,
        opts=opts,
    )
    return Network(network.id, subnet.id, own=True)


def existing(name: str, location: Location, opts: pulumi.InvokeOptions) -> Network:
    """The network of this name, with its one subnet in the region.

    Raises:
        ConfigError: there is no such network, or it does not have one subnet in the region.
    """
    try:
        found = compute.get_network(name=name, project=location.project, opts=opts)
    except Exception as error:  # the type that a failed invoke raises
        raise ConfigError(
            f"network: {name} in {location.project} cannot be read: {error}\n"
            "  next: pulumi config rm network   # the stack makes one"
        ) from None
    links = [
        link for link in found.subnetworks_self_links if f"/regions/{location.region}/" in link
    ]
    if len(links) != 1:
        names = ", ".join(link.rpartition("/")[2] for link in links) or "none"
        raise ConfigError(
            f"network: {name} must have one subnet in {location.region}, and has {names}\n"
            "  next: pulumi config rm network   # the stack makes one"
        )
    return Network(found.self_link, links[0], own=False)
