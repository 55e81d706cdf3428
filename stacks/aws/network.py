"""The network of a cluster: a VPC with one public subnet, or an existing one, and who gets in."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2, vpc

from stacks.aws.place import Place
from stacks.rules import ConfigError
from stacks.settings import ClusterConfig

BLOCK = ipaddress.ip_network("10.77.0.0/16")
EVERYWHERE = "0.0.0.0/0"


@dataclass(frozen=True)
class Network:
    """What a host stands in. `ready` is all that must exist before it can reach the world."""

    subnet: pulumi.Input[str]
    group: pulumi.Input[str]
    ready: tuple[pulumi.Resource, ...]


def check(config: ClusterConfig) -> None:
    """Raises ConfigError where nobody could connect: hosts have public IPv4 addresses only."""
    if not any(_version(cidr) == 4 for cidr in config.ssh_cidrs):
        raise ConfigError(
            f"ssh_cidrs: {', '.join(config.ssh_cidrs)}: hosts on AWS have IPv4 addresses only; "
            "name yours too\n  next: curl -4 https://checkip.amazonaws.com"
        )


def network(config: ClusterConfig, place: Place, opts: pulumi.ResourceOptions) -> Network:
    """The existing VPC's subnet, or a VPC of our own; in both a security group of our own."""
    if config.network and place.subnet:
        return Network(place.subnet, *_group(config, config.network, opts))
    # checkov:skip=CKV2_AWS_11: flow logs are billed by the GB, and ranks send each other many
    own = ec2.Vpc(
        f"{config.name}-vpc",
        cidr_block=str(BLOCK),
        enable_dns_hostnames=True,
        enable_dns_support=True,
        tags={"Name": f"railhead-{config.name}"},
        opts=opts,
    )
    subnet = _subnet(config, place, own, opts)
    ways = _ways_out(config, own, subnet, opts)
    # The group that AWS makes with every VPC lets all its members talk: ours has no members.
    ec2.DefaultSecurityGroup(f"{config.name}-default", vpc_id=own.id, opts=opts)
    group, rules = _group(config, own.id, opts)
    return Network(subnet.id, group, (*ways, *rules))


def _subnet(
    config: ClusterConfig, place: Place, own: ec2.Vpc, opts: pulumi.ResourceOptions
) -> ec2.Subnet:
    """Each zone has its own block, so that a subnet in another zone can be made beside it.

    Without a choice in the config the zone is fixed when the cluster is made: a list of zones
    that AWS changes must not move machines.
    """
    blocks = list(BLOCK.subnets(new_prefix=20))
    return ec2.Subnet(
        f"{config.name}-subnet",
        vpc_id=own.id,
        cidr_block=str(blocks[(ord(place.zone[-1]) - ord("a")) % len(blocks)]),
        availability_zone=place.zone,
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


def _ways_out(
    config: ClusterConfig, own: ec2.Vpc, subnet: ec2.Subnet, opts: pulumi.ResourceOptions
) -> tuple[pulumi.Resource, ...]:
    """To the world through a gateway; to S3 inside of AWS, which costs nothing."""
    gateway = ec2.InternetGateway(f"{config.name}-gateway", vpc_id=own.id, opts=opts)
    table = ec2.RouteTable(f"{config.name}-routes", vpc_id=own.id, opts=opts)
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
        vpc_id=own.id,
        service_name=f"com.amazonaws.{config.region}.s3",
        vpc_endpoint_type="Gateway",
        route_table_ids=[table.id],
        opts=opts,
    )
    return out, joined, to_s3


def _group(
    config: ClusterConfig, vpc_id: pulumi.Input[str], opts: pulumi.ResourceOptions
) -> tuple[pulumi.Output[str], tuple[pulumi.Resource, ...]]:
    """ssh from the operator, everything among the hosts, and out. Rules stand alone: those in
    the group's own arguments and these would undo each other at every `up`."""
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
