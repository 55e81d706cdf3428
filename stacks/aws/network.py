"""The network of a cluster: a new VPC with one public subnet or an existing VPC; its rules."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2, vpc

from ..config.settings import ClusterConfig
from .zone import Location

BLOCK = ipaddress.ip_network("10.77.0.0/16")
EVERYWHERE = "0.0.0.0/0"


@dataclass(frozen=True)
class Network:
    """The subnet and security group of a host. `ready`: what must exist before it has access."""

    subnet: pulumi.Input[str]
    group: pulumi.Input[str]
    ready: tuple[pulumi.Resource, ...]


def make_network(
    config: ClusterConfig, location: Location, opts: pulumi.ResourceOptions
) -> Network:
    """The existing VPC's subnet, or a new VPC; with a new security group in both cases."""
    if config.network and location.subnet:
        return Network(location.subnet, *_group(config, config.network, opts))
    # checkov:skip=CKV2_AWS_11: flow logs are billed by the GB, and ranks send each other many
    new = ec2.Vpc(
        f"{config.name}-vpc",
        cidr_block=str(BLOCK),
        enable_dns_hostnames=True,
        enable_dns_support=True,
        tags={"Name": f"railhead-{config.name}"},
        opts=opts,
    )
    subnet = _subnet(config, location, new, opts)
    routes = _routes(config, new, subnet, opts)
    # AWS makes a default group with every VPC, which lets its members connect: empty it.
    ec2.DefaultSecurityGroup(f"{config.name}-default", vpc_id=new.id, opts=opts)
    group, rules = _group(config, new.id, opts)
    return Network(subnet.id, group, (*routes, *rules))


def _subnet(
    config: ClusterConfig, location: Location, new: ec2.Vpc, opts: pulumi.ResourceOptions
) -> ec2.Subnet:
    """Each zone has its own block, so that a subnet in another zone can be created beside it.

    Without configured zones the zone is fixed when the cluster is created: a change in AWS's list
    of zones must not move machines.
    """
    blocks = list(BLOCK.subnets(new_prefix=20))
    return ec2.Subnet(
        f"{config.name}-subnet",
        vpc_id=new.id,
        cidr_block=str(blocks[(ord(location.zone[-1]) - ord("a")) % len(blocks)]),
        availability_zone=location.zone,
        # checkov:skip=CKV_AWS_130: the operator comes from outside; the group lets nobody else in
        map_public_ip_on_launch=True,
        tags={"Name": f"railhead-{config.name}"},
        opts=pulumi.ResourceOptions.merge(
            opts,
            pulumi.ResourceOptions(
                ignore_changes=[] if config.zones else ["availabilityZone", "cidrBlock"]
            ),
        ),
    )


def _routes(
    config: ClusterConfig, new: ec2.Vpc, subnet: ec2.Subnet, opts: pulumi.ResourceOptions
) -> tuple[pulumi.Resource, ...]:
    """To the internet through a gateway; to S3 inside AWS, which is free."""
    gateway = ec2.InternetGateway(f"{config.name}-gateway", vpc_id=new.id, opts=opts)
    table = ec2.RouteTable(f"{config.name}-routes", vpc_id=new.id, opts=opts)
    out = ec2.Route(
        f"{config.name}-out",
        route_table_id=table.id,
        destination_cidr_block=EVERYWHERE,
        gateway_id=gateway.id,
        opts=opts,
    )
    joined = ec2.RouteTableAssociation(
        f"{config.name}-joined", route_table_id=table.id, subnet_id=subnet.id, opts=opts
    )
    to_s3 = ec2.VpcEndpoint(
        f"{config.name}-s3",
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
    """In: SSH from the operator, all traffic between the hosts. Out: all.

    Rules are separate resources: rules in the group's arguments would remove these at every `up`.
    """
    group = ec2.SecurityGroup(
        f"railhead-{config.name}",  # AWS refuses names that begin with sg-
        vpc_id=vpc_id,
        description=f"Hosts of the cluster {config.name}",
        opts=opts,
    )
    rules: list[pulumi.Resource] = [_ssh(config, group.id, cidr, opts) for cidr in config.ssh_cidrs]
    rules.append(
        vpc.SecurityGroupIngressRule(
            f"{config.name}-among",
            security_group_id=group.id,
            referenced_security_group_id=group.id,
            ip_protocol="-1",
            description="all among the hosts",
            opts=opts,
        )
    )
    rules.append(
        vpc.SecurityGroupEgressRule(
            f"{config.name}-anywhere",
            security_group_id=group.id,
            cidr_ipv4=EVERYWHERE,
            ip_protocol="-1",
            description="packages, data and results",
            opts=opts,
        )
    )
    return group.id, tuple(rules)


def _ssh(
    config: ClusterConfig, group: pulumi.Output[str], cidr: str, opts: pulumi.ResourceOptions
) -> vpc.SecurityGroupIngressRule:
    four = _version(cidr) == 4
    return vpc.SecurityGroupIngressRule(
        f"{config.name}-ssh-{cidr}",
        security_group_id=group,
        cidr_ipv4=cidr if four else None,
        cidr_ipv6=None if four else cidr,
        ip_protocol="tcp",
        from_port=22,
        to_port=22,
        description="ssh from the operator",
        opts=opts,
    )


def _version(cidr: str) -> int:
    return ipaddress.ip_network(cidr).version
