"""What a killed `pulumi up` left of a network: EC2's resources with a cluster's id, removed by it.

They cost nothing, but each keeps EC2 from removing the VPC that it is in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bootstrap.clouds.aws.client import AwsClient, connect
from bootstrap.clouds.base import Refused
from bootstrap.clouds.machines import Place

One = Mapping[str, Any]


def remove(place: Place, cluster_id: str, client: AwsClient | None = None) -> list[str]:
    """Remove the network and the key pairs with this id; the ids that were removed.

    Only for a cluster whose machines are gone. What EC2 refuses to remove stays.
    """
    client = client or connect(place.region)
    removed = []
    for describe, key, name, delete in _kinds(client):
        filters = [{"Name": "tag:railhead:id", "Values": [cluster_id]}]
        for one in client("ec2", describe, Filters=filters)[key]:
            try:
                delete(one)
            except Refused:
                continue
            removed.append(str(one[name]))
    return removed


def _kinds(client: AwsClient) -> Iterator[tuple[str, str, str, Callable[[One], object]]]:
    """Per kind: the call that lists it, the list's key, its id, and its removal; in the order in
    which EC2 removes them."""

    def ec2(operation: str, **parameters: Any) -> object:
        return client("ec2", operation, **parameters)

    def gateway(one: One) -> None:
        for each in one.get("Attachments", ()):
            ec2(
                "detach_internet_gateway",
                InternetGatewayId=one["InternetGatewayId"],
                VpcId=each["VpcId"],
            )
        ec2("delete_internet_gateway", InternetGatewayId=one["InternetGatewayId"])

    def table(one: One) -> None:
        for each in one.get("Associations", ()):
            if not each.get("Main"):
                ec2("disassociate_route_table", AssociationId=each["RouteTableAssociationId"])
        ec2("delete_route_table", RouteTableId=one["RouteTableId"])

    yield (
        "describe_vpc_endpoints",
        "VpcEndpoints",
        "VpcEndpointId",
        lambda one: ec2("delete_vpc_endpoints", VpcEndpointIds=[one["VpcEndpointId"]]),
    )
    yield (
        "describe_security_groups",
        "SecurityGroups",
        "GroupId",
        lambda one: ec2("delete_security_group", GroupId=one["GroupId"]),
    )
    yield "describe_route_tables", "RouteTables", "RouteTableId", table
    yield (
        "describe_subnets",
        "Subnets",
        "SubnetId",
        lambda one: ec2("delete_subnet", SubnetId=one["SubnetId"]),
    )
    yield "describe_internet_gateways", "InternetGateways", "InternetGatewayId", gateway
    yield "describe_vpcs", "Vpcs", "VpcId", lambda one: ec2("delete_vpc", VpcId=one["VpcId"])
    yield (
        "describe_key_pairs",
        "KeyPairs",
        "KeyName",
        lambda one: ec2("delete_key_pair", KeyName=one["KeyName"]),
    )
