"""The network on AWS: its zones, its firewall and its ways out."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from tests.stacks.aws.world import INSTANCE, denied, made, world
from tests.stacks.mocks import STASH, Made

INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
EGRESS = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
SUBNET = "aws:ec2/subnet:Subnet"
EVERYBODY = {"0.0.0.0/0", "::/0"}
LOCAL, WAVELENGTH = "us-east-1-bos-1a", "us-east-1-wl1-bos-wlz-1"


@pytest.mark.parametrize("spot", [False, True])
@pytest.mark.parametrize("network", [None, "vpc-0a1b2c3d"])
def test_22_is_open_to_the_operator_and_nothing_to_the_world(
    spot: bool, network: str | None
) -> None:
    """Rules of every kind, and none inside of a group, where they would not be seen here."""
    there = world(subnets={"us-east-1a": ["subnet-1"]})
    changes: dict[str, Any] = {"network": network} if network else {}
    cluster = made(there, spot=spot, ssh_cidrs="203.0.113.7/32,2001:db8::7/128", **changes)
    from_outside = [resource.inputs for resource in cluster.every(INGRESS)]
    cidrs = [(rule.get("cidrIpv4") or rule.get("cidrIpv6")) for rule in from_outside]
    assert {cidr for cidr in cidrs if cidr} == {"203.0.113.7/32", "2001:db8::7/128"}
    for rule in from_outside:
        inside = rule.get("referencedSecurityGroupId") == rule["securityGroupId"]
        assert inside or (rule["fromPort"], rule["toPort"], rule["ipProtocol"]) == (22, 22, "tcp")
    assert not EVERYBODY & {cidr for cidr in cidrs if cidr}
    for resource in cluster.resources:
        kind = resource.type
        if kind.endswith("ecurityGroup:SecurityGroup") or "defaultSecurityGroup" in kind:
            assert not {"ingress", "egress"} & resource.inputs.keys(), resource.name
        assert kind != "aws:ec2/securityGroupRule:SecurityGroupRule"


def test_all_hosts_are_in_the_first_zone_that_sells_the_type() -> None:
    cluster = made()
    assert cluster.one(SUBNET).inputs["availabilityZone"] == "us-east-1a"
    assert len({host.inputs["subnetId"] for host in cluster.every(INSTANCE)}) == 1
    fixed = cluster.one(SUBNET).ignore_changes
    assert "availabilityZone" in fixed, "a zone that AWS adds must not move machines"
    chosen = made(world(sold_in=["us-east-1b", "us-east-1d"]), zones="us-east-1c,us-east-1d")
    subnet = chosen.one(SUBNET)
    assert subnet.inputs["availabilityZone"] == "us-east-1d" and not subnet.ignore_changes


def zones_in_turn(cluster: Made) -> Any:
    """The zone of the hosts, and the zones in which `fab up` looks for capacity in turn."""
    (zone,) = {resource.inputs["availabilityZone"] for resource in cluster.every(SUBNET)}
    (turn,) = [r.inputs["input"] for r in cluster.every(STASH) if r.name == "cluster-zones"]
    return zone, turn


def test_local_and_wavelength_zones_are_used_only_where_they_are_named() -> None:
    """They sort before the others: us-east-1-bos-1a."""
    there = world(sold_in=[LOCAL, "us-east-1b", WAVELENGTH, "us-east-1d"])
    assert zones_in_turn(made(there)) == ("us-east-1b", ["us-east-1b", "us-east-1d"])
    assert zones_in_turn(made(there, zones=LOCAL)) == (LOCAL, [LOCAL])
    zones = f"us-east-1d,{WAVELENGTH},us-east-1b"
    assert zones_in_turn(made(there, zones=zones)) == ("us-east-1d", zones.split(","))
    message = denied(world(sold_in=[LOCAL, WAVELENGTH]))
    assert "no ordinary zone has g4dn.xlarge" in message
    assert f"next: pulumi config set zones {LOCAL}" in message


def test_zones_of_an_existing_network_are_those_with_a_public_subnet() -> None:
    there = world(subnets={"us-east-1b": ["subnet-2"], "us-east-1d": ["subnet-4"]})
    cluster = made(there, network="vpc-0a1b2c3d")
    assert {host.inputs["subnetId"] for host in cluster.every(INSTANCE)} == {"subnet-2"}
    (turn,) = [r.inputs["input"] for r in cluster.every(STASH) if r.name == "cluster-zones"]
    assert turn == ["us-east-1b", "us-east-1d"]


def test_zones_have_blocks_of_their_own_inside_the_network() -> None:
    network = ipaddress.ip_network(made().one("aws:ec2/vpc:Vpc").inputs["cidrBlock"])
    blocks = {
        made(zones=f"us-east-1{letter}", where=world(sold_in=[f"us-east-1{letter}"]))
        .one(SUBNET)
        .inputs["cidrBlock"]
        for letter in "abcdef"
    }
    assert len(blocks) == 6
    assert all(ipaddress.ip_network(block).subnet_of(network) for block in blocks)  # type: ignore[arg-type]


def test_an_existing_network_is_used_and_left_as_it_is() -> None:
    there = world(subnets={"us-east-1c": ["subnet-2", "subnet-1"]})
    cluster = made(there, network="vpc-0a1b2c3d")
    for host in cluster.every(INSTANCE):
        assert host.inputs["subnetId"] == "subnet-1" and "subnetId" in host.ignore_changes
    group = cluster.one("aws:ec2/securityGroup:SecurityGroup")
    assert group.inputs["vpcId"] == "vpc-0a1b2c3d"
    ours = {"Vpc", "Subnet", "RouteTable", "Route", "InternetGateway", "VpcEndpoint"}
    assert not {kind.rsplit(":")[-1] for kind in cluster.kinds} & (ours | {"DefaultSecurityGroup"})
    assert "no subnet that gives public addresses" in denied(network="vpc-0a1b2c3d")


def test_a_network_of_its_own_leads_out_and_has_an_empty_default_group() -> None:
    """Its machines have addresses, and AWS's own group, whose members reach each other, no rule."""
    cluster = made()
    (vpc,) = {resource.name for resource in cluster.every("aws:ec2/vpc:Vpc")}
    assert cluster.one(SUBNET).inputs["mapPublicIpOnLaunch"] is True
    route = cluster.one("aws:ec2/route:Route").inputs
    assert route["destinationCidrBlock"] == "0.0.0.0/0"
    gateway = cluster.one("aws:ec2/internetGateway:InternetGateway")
    assert (route["gatewayId"], gateway.inputs["vpcId"]) == (f"{gateway.name}-id", f"{vpc}-id")
    default = cluster.one("aws:ec2/defaultSecurityGroup:DefaultSecurityGroup")
    assert default.inputs["vpcId"] == f"{vpc}-id"


def test_everything_may_leave_and_hosts_reach_each_other_by_every_protocol() -> None:
    """Not UDP alone, nor a range of ports: packages come over TCP, MPI takes any port."""
    cluster = made()
    (out,) = [resource.inputs for resource in cluster.every(EGRESS)]
    assert (out["ipProtocol"], out["cidrIpv4"]) == ("-1", "0.0.0.0/0")
    among = [o.inputs for o in cluster.every(INGRESS) if o.inputs.get("referencedSecurityGroupId")]
    assert [rule["ipProtocol"] for rule in among] == ["-1"]
    for rule in (out, *among):
        assert rule.get("fromPort") is None and rule.get("toPort") is None


def test_s3_is_reached_inside_of_aws() -> None:
    cluster = made()
    way = cluster.one("aws:ec2/vpcEndpoint:VpcEndpoint").inputs
    assert way["serviceName"] == "com.amazonaws.us-east-1.s3"
    assert way["vpcEndpointType"] == "Gateway"
    table = cluster.one("aws:ec2/routeTable:RouteTable")
    assert way["routeTableIds"] == [f"{table.name}-id"]


def test_hosts_wait_for_their_ways_out() -> None:
    """A machine that boots without a route installs nothing."""
    cluster = made()
    joined = "aws:ec2/routeTableAssociation:RouteTableAssociation"
    kinds = ("aws:ec2/route:Route", joined, INGRESS, EGRESS)
    needed = {resource.urn for kind in kinds for resource in cluster.every(kind)}
    for host in cluster.every(INSTANCE):
        assert needed <= set(host.depends_on)


def test_zones_without_the_type_name_those_with_it() -> None:
    message = denied(world(sold_in=["us-east-1a", "us-east-1b"]), zones="us-east-1c")
    assert "none of us-east-1c has g4dn.xlarge" in message and "us-east-1a, us-east-1b" in message
