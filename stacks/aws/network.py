"""The network of a cluster: a new VPC with one public subnet or an existing VPC; its rules; the
group that places machines close together."""

from __future__ import annotations

import ipaddress
from functools import partial

import pulumi
from pulumi_aws import ec2, vpc

from ..component import computed
from ..component.logical_names import named
from ..component.parts import Part, keeping, unique
from ..config.settings import ClusterConfig
from .zone import Location

BLOCK = ipaddress.ip_network("10.77.0.0/16")
EVERYWHERE = "0.0.0.0/0"


class Network(Part):
    """The existing VPC's subnet, or a new VPC; with a new security group in both cases.

    Attributes:
        subnet: the subnet of the hosts.
        group: their security group.
        placement: the name of the group that places them; None for spot machines.
        ready: what must exist before a host has access.
    """

    def __init__(
        self, config: ClusterConfig, location: Location, opts: pulumi.ResourceOptions
    ) -> None:
        super().__init__("aws:Network", "network", opts)
        vpc_id: pulumi.Input[str]
        routes: tuple[pulumi.Resource, ...] = ()
        if config.network and location.subnet:
            vpc_id, self.subnet = config.network, pulumi.Output.from_input(location.subnet)
        else:
            new = _vpc(config, self.inner)
            subnet = _subnet(config, location, new, self.inner)
            routes = _routes(config, new, subnet, self.inner)
            vpc_id, self.subnet = new.id, subnet.id
        self.group, rules = _group(config, vpc_id, self.inner)
        self.ready = (*routes, *rules)
        placement = _placement(config, self.inner)
        self.placement = placement.name if placement else None
        self.register_outputs({"subnet": self.subnet, "group": self.group})


def _placement(config: ClusterConfig, opts: pulumi.ResourceOptions) -> ec2.PlacementGroup | None:
    """A cluster placement group: its machines are close in the network. None for spot machines. It
    exists without `placement` too: machines may be in it, and then AWS refuses to remove it."""
    if config.spot:
        return None
    return ec2.PlacementGroup(
        named(opts, "placement"),
        name=unique("railhead", config.name),
        strategy="cluster",
        opts=keeping(opts, "name"),
    )


def _vpc(config: ClusterConfig, opts: pulumi.ResourceOptions) -> ec2.Vpc:
    """A new VPC."""
    # checkov:skip=CKV2_AWS_11: flow logs are billed by the GB, and ranks send each other many
    new = ec2.Vpc(
        named(opts, "vpc"),
        cidr_block=str(BLOCK),
        enable_dns_hostnames=True,
        enable_dns_support=True,
        tags={"Name": f"railhead-{config.name}"},
        opts=opts,
    )
    # AWS makes a default group with every VPC, which lets its members connect: empty it.
    ec2.DefaultSecurityGroup(named(opts, "default"), vpc_id=new.id, opts=opts)
    return new


def _subnet(
    config: ClusterConfig, location: Location, new: ec2.Vpc, opts: pulumi.ResourceOptions
) -> ec2.Subnet:
    """Each zone has its own block, so that a subnet in another zone can be created beside it.
    Without configured zones the zone is fixed when the cluster is created: a change in AWS's list
    of zones must not move machines."""
    blocks = list(BLOCK.subnets(new_prefix=20))
    return ec2.Subnet(
        named(opts, "subnet"),
        vpc_id=new.id,
        cidr_block=str(blocks[(ord(location.zone[-1]) - ord("a")) % len(blocks)]),
        availability_zone=location.zone,
        # checkov:skip=CKV_AWS_130: the operator comes from outside; the group lets nobody else in
        map_public_ip_on_launch=True,
        tags={"Name": f"railhead-{config.name}"},
        opts=opts if config.zones else keeping(opts, "availabilityZone", "cidrBlock"),
    )


def _routes(
    config: ClusterConfig, new: ec2.Vpc, subnet: ec2.Subnet, opts: pulumi.ResourceOptions
) -> tuple[pulumi.Resource, ...]:
    """To the internet through a gateway; to S3 inside AWS, which is free."""
    gateway = ec2.InternetGateway(named(opts, "gateway"), vpc_id=new.id, opts=opts)
    table = ec2.RouteTable(named(opts, "routes"), vpc_id=new.id, opts=opts)
    out = ec2.Route(
        named(opts, "out"),
        route_table_id=table.id,
        destination_cidr_block=EVERYWHERE,
        gateway_id=gateway.id,
        opts=opts,
    )
    joined = ec2.RouteTableAssociation(
        named(opts, "joined"), route_table_id=table.id, subnet_id=subnet.id, opts=opts
    )
    to_s3 = ec2.VpcEndpoint(
        named(opts, "s3"),
        vpc_id=new.id,
        service_name=f"com.amazonaws.{config.region}.s3",
        vpc_endpoint_type="Gateway",
        route_table_ids=[table.id],
        opts=opts,
    )
    return out, joined, to_s3


def _group(
    config: ClusterConfig, vpc_id: pulumi.Input[str], opts: pulumi.ResourceOptions
) -> tuple[pulumi.Output[str], tuple[pulumi.Resource, ...]]:
    """In: SSH from the operator, all traffic between the hosts. Out: all. Rules are separate
    resources: rules in the group's arguments would remove these at every `up`."""
    group = ec2.SecurityGroup(
        named(opts, "group"),
        name=unique("railhead", config.name),  # AWS refuses names that begin with sg-
        vpc_id=vpc_id,
        description=f"Hosts of the cluster {config.name}",
        opts=keeping(opts, "name", "description"),
    )
    rules: list[pulumi.Resource] = [
        _ssh(group.id, name, cidr, opts) for name, cidr in computed.networks(config)
    ]
    rules.append(
        vpc.SecurityGroupIngressRule(
            named(opts, "among"),
            security_group_id=group.id,
            referenced_security_group_id=group.id,
            ip_protocol="-1",
            description="all among the hosts",
            opts=opts,
        )
    )
    rules.append(
        vpc.SecurityGroupEgressRule(
            named(opts, "anywhere"),
            security_group_id=group.id,
            cidr_ipv4=EVERYWHERE,
            ip_protocol="-1",
            description="packages, data and results",
            opts=opts,
        )
    )
    return group.id, tuple(rules)


def _ssh(
    group: pulumi.Output[str],
    name: str,
    cidr: str | pulumi.Output[str],
    opts: pulumi.ResourceOptions,
) -> vpc.SecurityGroupIngressRule:
    return vpc.SecurityGroupIngressRule(
        named(opts, f"ssh-{name}"),
        security_group_id=group,
        cidr_ipv4=computed.mapped(cidr, partial(_of_version, 4)),
        cidr_ipv6=computed.mapped(cidr, partial(_of_version, 6)),
        ip_protocol="tcp",
        from_port=22,
        to_port=22,
        description="ssh from the operator",
        opts=opts,
    )


def _of_version(version: int, cidr: str) -> str | None:
    """A network if it is of this IP version."""
    return cidr if ipaddress.ip_network(cidr).version == version else None
