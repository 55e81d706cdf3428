"""The kinds of resources that have Railhead's tags on AWS: how each is listed and removed.

A removal is a list of calls of AWS's API. They are run, or shown as commands of the `aws` CLI.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any

from railhead.documents.lazy import dataclass

from .client import AwsClient, items

CLUSTER, ID, STACK, OWNER = "railhead:cluster", "railhead:id", "railhead:stack", "railhead:owner"
# The names of roles and schedules begin with it; those of buckets too, unless the config names one.
PREFIX = "railhead-"
ENDED = ("deleting", "deleted")  # states of endpoints, which stay listed for a while
Described = Mapping[str, Any]
Parameters = Described


@dataclass(frozen=True)
class Call:
    """A call of AWS's API."""

    service: str
    operation: str
    parameters: Parameters = field(default_factory=dict)

    def run(self, client: AwsClient) -> None:
        """Make the call. Refused: AWS does not do it."""
        client(self.service, self.operation, **self.parameters)

    def typed(self, region: str | None) -> str:
        """The same as a command of the `aws` CLI; `region` None for services of all regions."""
        service = "s3api" if self.service == "s3" else self.service
        words = ["aws", service, self.operation.replace("_", "-")]
        words += ["--region", region] if region else []
        for name, value in self.parameters.items():
            words += [_option(name), *(value if isinstance(value, list) else [_text(value)])]
        return shlex.join(words)


def typed(calls: Iterator[Call], region: str | None) -> str:
    """Calls as one line for a shell."""
    return " && ".join(call.typed(region) for call in calls)


def _option(parameter: str) -> str:
    return "--" + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", parameter).lower()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _nothing(_: Described) -> Iterator[Call]:
    return iter(())


def _detach(gateway: Described) -> Iterator[Call]:
    for attachment in gateway.get("Attachments", ()):
        ids = {"InternetGatewayId": gateway["InternetGatewayId"], "VpcId": attachment["VpcId"]}
        yield Call("ec2", "detach_internet_gateway", ids)


def _disassociate(table: Described) -> Iterator[Call]:
    for association in table.get("Associations", ()):
        if not association.get("Main"):
            id_ = association["RouteTableAssociationId"]
            yield Call("ec2", "disassociate_route_table", {"AssociationId": id_})


def _give_up(address: Described) -> Iterator[Call]:
    if id_ := address.get("AssociationId"):
        yield Call("ec2", "disassociate_address", {"AssociationId": id_})


@dataclass(frozen=True)
class Kind:
    """A kind of EC2 resource.

    Attributes:
        name: for people.
        describe: the operation that lists it.
        key: the key of the list in the response.
        id: the field with its id, which is also the parameter of `delete`.
        delete: the operation that removes it.
        free: the calls that must come before.
        several: `delete` takes a list of ids.
        since: the field with the time of its creation; empty if EC2 does not report it.
        only: more parameters of `describe`.
    """

    name: str
    describe: str
    key: str
    id: str
    delete: str
    free: Callable[[Described], Iterator[Call]] = _nothing
    several: bool = False
    since: str = ""
    only: Parameters = field(default_factory=dict)

    def calls(self, item: Described) -> Iterator[Call]:
        """The calls that remove a resource."""
        yield from self.free(item)
        id_ = {f"{self.id}s": [item[self.id]]} if self.several else {self.id: item[self.id]}
        yield Call("ec2", self.delete, id_)


# In the order in which EC2 removes them; they cost nothing.
NETWORK = (
    Kind("endpoint", "describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId",
         "delete_vpc_endpoints", several=True, since="CreationTimestamp"),
    Kind("security group", "describe_security_groups", "SecurityGroups", "GroupId",
         "delete_security_group"),
    Kind("route table", "describe_route_tables", "RouteTables", "RouteTableId",
         "delete_route_table", _disassociate),
    Kind("subnet", "describe_subnets", "Subnets", "SubnetId", "delete_subnet"),
    Kind("internet gateway", "describe_internet_gateways", "InternetGateways",
         "InternetGatewayId", "delete_internet_gateway", _detach),
    Kind("network", "describe_vpcs", "Vpcs", "VpcId", "delete_vpc"),
    Kind("key pair", "describe_key_pairs", "KeyPairs", "KeyName", "delete_key_pair",
         since="CreateTime"),
    Kind("placement group", "describe_placement_groups", "PlacementGroups", "GroupName",
         "delete_placement_group"),
)  # fmt: skip
DISK = Kind("disk", "describe_volumes", "Volumes", "VolumeId", "delete_volume", since="CreateTime")
SNAPSHOT = Kind(
    "snapshot", "describe_snapshots", "Snapshots", "SnapshotId", "delete_snapshot",
    since="StartTime", only={"OwnerIds": ["self"]},
)  # fmt: skip
ADDRESS = Kind(
    "address", "describe_addresses", "Addresses", "AllocationId", "release_address", _give_up
)


def described(client: AwsClient, kind: Kind, filter_name: str, *values: str) -> Iterator[Described]:
    """The resources of a kind that pass a filter and can be removed."""
    parameters = {**kind.only, "Filters": [{"Name": filter_name, "Values": list(values)}]}
    for item in items(Any, client, "ec2", kind.describe, kind.key, **parameters):
        # A network's own group is removed with the network.
        if item.get("State") not in ENDED and item.get("GroupName") != "default":
            yield item


def tags_of(item: Described) -> dict[str, str]:
    """The tags of a resource by name."""
    return {str(tag["Key"]): str(tag["Value"]) for tag in item.get("Tags") or ()}


def role_names(client: AwsClient) -> Iterator[str]:
    """The names of the roles that may be Railhead's."""
    names = items(str, client, "iam", "list_roles", "Roles.RoleName", "Marker")
    return (name for name in names if name.startswith(PREFIX))


def role_tags(client: AwsClient, name: str) -> dict[str, str]:
    """The tags of a role."""
    return tags_of(client("iam", "list_role_tags", RoleName=name))


def role_calls(client: AwsClient, name: str) -> Iterator[Call]:
    """The calls that remove a role: IAM removes one only without instance profiles and policies."""
    role = {"RoleName": name}
    profiles = client("iam", "list_instance_profiles_for_role", **role)["InstanceProfiles"]
    for profile in ({"InstanceProfileName": str(p["InstanceProfileName"])} for p in profiles):
        yield Call("iam", "remove_role_from_instance_profile", {**profile, **role})
        yield Call("iam", "delete_instance_profile", profile)
    for policy in client("iam", "list_role_policies", **role)["PolicyNames"]:
        yield Call("iam", "delete_role_policy", {**role, "PolicyName": str(policy)})
    yield Call("iam", "delete_role", role)
