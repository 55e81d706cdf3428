"""The network of the hosts: an own one, or one that is there."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute

from stacks.gcp.labels import description
from stacks.gcp.place import Place
from stacks.rules import ConfigError
from stacks.settings import ClusterConfig

RANGE = "10.164.0.0/20"


@dataclass(frozen=True)
class Network:
    """A network and its subnet in the cluster's region, as ids. `own`: made for this cluster."""

    network: pulumi.Input[str]
    subnet: pulumi.Input[str]
    own: bool


def own(config: ClusterConfig, place: Place, parent: pulumi.Resource) -> Network:
    """A network of one subnet. Google's own services are reached without leaving Google."""
    opts = pulumi.ResourceOptions(parent=parent)
    network = compute.Network(
        config.name,
        project=place.project,
        description=description(config),
        auto_create_subnetworks=False,
        routing_mode="REGIONAL",
        opts=opts,
    )
    # checkov:skip=CKV_GCP_26: flow logs are billed by the GB, and ranks send each other many
    subnet = compute.Subnetwork(
        config.name,
        project=place.project,
        region=place.region,
        network=network.id,
        description=description(config),
        ip_cidr_range=RANGE,
        private_ip_google_access=True,
        opts=opts,
    )
    return Network(network.id, subnet.id, own=True)


def existing(name: str, place: Place, opts: pulumi.InvokeOptions) -> Network:
    """The network of this name, with its one subnet in the region.

    Raises:
        ConfigError: there is no such network, or not one subnet there.
    """
    try:
        found = compute.get_network(name=name, project=place.project, opts=opts)
    except Exception as error:  # that is what a failed invoke raises
        raise ConfigError(f"network: {name} in {place.project} cannot be had: {error}") from None
    here = [link for link in found.subnetworks_self_links if f"/regions/{place.region}/" in link]
    if len(here) != 1:
        names = ", ".join(link.rpartition("/")[2] for link in here) or "none"
        raise ConfigError(
            f"network: {name} must have one subnet in {place.region}, and has {names}"
        )
    return Network(found.self_link, here[0], own=False)
