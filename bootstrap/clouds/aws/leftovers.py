"""Removes the resources that a killed `pulumi up` left on AWS, by the stack's id.

They cost nothing. Some keep AWS from removing others, or have a name that the next `up` needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..base import Refused
from ..machines import MOST_PAGES, Place, too_many
from .client import AwsClient, connect

ID_TAG = "railhead:id"
ROLES = "railhead-"  # the names of the stacks' roles begin so
Resource = Mapping[str, Any]


def _nothing(_client: AwsClient, _one: Resource) -> None:
    return None


def _detach(client: AwsClient, gateway: Resource) -> None:
    own = gateway["InternetGatewayId"]
    for attachment in gateway.get("Attachments", ()):
        client("ec2", "detach_internet_gateway", InternetGatewayId=own, VpcId=attachment["VpcId"])


def _disassociate(client: AwsClient, table: Resource) -> None:
    for association in table.get("Associations", ()):
        if not association.get("Main"):
            own = association["RouteTableAssociationId"]
            client("ec2", "disassociate_route_table", AssociationId=own)


@dataclass(frozen=True)
class Kind:
    """A kind of EC2 resource.

    Attributes:
        describe: the operation that lists it.
        key: the key of the list in the response.
        id: the field with its id, which is also the parameter of `delete`.
        delete: the operation that removes it.
        free: what must be done before.
        several: `delete` takes a list of ids.
    """

    describe: str
    key: str
    id: str
    delete: str
    free: Callable[[AwsClient, Resource], None] = _nothing
    several: bool = False

    def remove(self, client: AwsClient, one: Resource) -> None:
        """Remove one. Refused: EC2 does not."""
        self.free(client, one)
        parameters = {f"{self.id}s": [one[self.id]]} if self.several else {self.id: one[self.id]}
        client("ec2", self.delete, **parameters)


# In the order in which EC2 removes them.
KINDS = (
    Kind("describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId", "delete_vpc_endpoints",
         several=True),
    Kind("describe_security_groups", "SecurityGroups", "GroupId", "delete_security_group"),
    Kind("describe_route_tables", "RouteTables", "RouteTableId", "delete_route_table",
         _disassociate),
    Kind("describe_subnets", "Subnets", "SubnetId", "delete_subnet"),
    Kind("describe_internet_gateways", "InternetGateways", "InternetGatewayId",
         "delete_internet_gateway", _detach),
    Kind("describe_vpcs", "Vpcs", "VpcId", "delete_vpc"),
    Kind("describe_key_pairs", "KeyPairs", "KeyName", "delete_key_pair"),
    Kind("describe_placement_groups", "PlacementGroups", "GroupName", "delete_placement_group"),
)  # fmt: skip


def remove(place: Place, cluster_id: str, client: AwsClient | None = None) -> list[str]:
    """Remove the network, key pairs, placement groups and roles with this id; their ids.

    Only for a cluster whose machines are gone. Resources that AWS refuses to remove stay.

    Raises:
        Refused: AWS does not list them.
    """
    client = client or connect(place.region)
    return [*_of_ec2(client, cluster_id), *_roles(client, cluster_id)]


def _of_ec2(client: AwsClient, cluster_id: str) -> Iterator[str]:
    filters = [{"Name": f"tag:{ID_TAG}", "Values": [cluster_id]}]
    for kind in KINDS:
        for one in client("ec2", kind.describe, Filters=filters)[kind.key]:
            if one.get("State") in ("deleting", "deleted"):  # endpoints, for a while
                continue
            try:
                kind.remove(client, one)
            except Refused:
                continue
            yield str(one[kind.id])


def _roles(client: AwsClient, cluster_id: str) -> Iterator[str]:
    for name in list(_role_names(client)):
        tags = client("iam", "list_role_tags", RoleName=name)["Tags"]
        if {"Key": ID_TAG, "Value": cluster_id} in tags:
            try:
                _remove_role(client, name)
            except Refused:
                continue
            yield name


def _role_names(client: AwsClient) -> Iterator[str]:
    more: dict[str, str] = {}
    for _ in range(MOST_PAGES):
        answer = client("iam", "list_roles", **more)
        names = (str(role["RoleName"]) for role in answer["Roles"])
        yield from (name for name in names if name.startswith(ROLES))
        if not answer.get("IsTruncated"):
            return
        more = {"Marker": answer["Marker"]}
    raise too_many("IAM ListRoles")


def _remove_role(client: AwsClient, name: str) -> None:
    """IAM removes a role only without instance profiles and policies."""
    profiles = client("iam", "list_instance_profiles_for_role", RoleName=name)["InstanceProfiles"]
    for profile in (str(one["InstanceProfileName"]) for one in profiles):
        client(
            "iam",
            "remove_role_from_instance_profile",
            InstanceProfileName=profile,
            RoleName=name,
        )
        client("iam", "delete_instance_profile", InstanceProfileName=profile)
    for policy in client("iam", "list_role_policies", RoleName=name)["PolicyNames"]:
        client("iam", "delete_role_policy", RoleName=name, PolicyName=policy)
    client("iam", "delete_role", RoleName=name)
