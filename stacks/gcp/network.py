"""The network of the hosts, a new or an existing one, and its firewall."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute

from ..component.logical_names import named
from ..component.parts import Part, keeping, unique
from ..config.settings import ClusterConfig
from ..next_command import rm
from ..rules.validators import ConfigError
from . import firewall
from .zone import Location

RANGE = "10.164.0.0/20"


@dataclass(frozen=True)
class ExistingNetwork:
    """A network that exists, and its subnet in the cluster's region, as ids."""

    network: str
    subnet: str


class Network(Part):
    """A new network with one subnet, or an existing one; the firewall of the hosts in both cases.

    Attributes:
        subnet: the id of the subnet of the hosts.
        ready: what must exist before a host has access.
    """

    def __init__(
        self,
        config: ClusterConfig,
        location: Location,
        existing: ExistingNetwork | None,
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__("gcp:Network", "network", opts)
        network: pulumi.Input[str]
        if existing:
            network, self.subnet = existing.network, pulumi.Output.from_input(existing.subnet)
        else:
            new = _network(config, location, self.inner)
            network, self.subnet = new.id, _subnet(config, location, new, self.inner).id
        self.ready = firewall.make_rules(
            config, location, network, self.inner, others=existing is not None
        )
        self.register_outputs({"subnet": self.subnet})


def _network(
    config: ClusterConfig, location: Location, opts: pulumi.ResourceOptions
) -> compute.Network:
    return compute.Network(
        named(opts, "vpc"),
        name=unique(config.name),
        project=location.project,
        auto_create_subnetworks=False,
        routing_mode="REGIONAL",
        opts=keeping(opts, "name", "description"),
    )


def _subnet(
    config: ClusterConfig,
    location: Location,
    network: compute.Network,
    opts: pulumi.ResourceOptions,
) -> compute.Subnetwork:
    """With private access to Google's own services."""
    # checkov:skip=CKV_GCP_26: flow logs are billed by the GB, and ranks send each other many
    return compute.Subnetwork(
        named(opts, "subnet"),
        name=unique(config.name),
        project=location.project,
        region=location.region,
        network=network.id,
        ip_cidr_range=RANGE,
        private_ip_google_access=True,
        opts=keeping(opts, "name", "description"),
    )


def existing(name: str, location: Location, opts: pulumi.InvokeOptions) -> ExistingNetwork:
    """The network of this name, with its one subnet in the region. ConfigError: there is no such
    network, or it does not have one subnet in the region."""
    try:
        network = compute.get_network(name=name, project=location.project, opts=opts)
    except Exception as error:  # the type that a failed invoke raises
        raise ConfigError(
            f"network: {name} in {location.project} cannot be read: {error}",
            rm("network"),
            "  # the stack makes one",
        ) from None
    links = [
        link for link in network.subnetworks_self_links if f"/regions/{location.region}/" in link
    ]
    if len(links) != 1:
        names = ", ".join(link.rpartition("/")[2] for link in links) or "none"
        raise ConfigError(
            f"network: {name} must have one subnet in {location.region}, and has {names}",
            rm("network"),
            "  # the stack makes one",
        )
    return ExistingNetwork(network.self_link, links[0])
