"""A cluster as a Terraform plan: the form in which checkov reads what is requested of a cloud.

Pulumi's providers for both clouds are made from Terraform's: the same resources and properties,
under other names. What has no name here is an error, so that nothing goes unread.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.stacks.mocks import Made, Resource

TYPES = {
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": "aws_default_security_group",
    "aws:ec2/instance:Instance": "aws_instance",
    "aws:ec2/internetGateway:InternetGateway": "aws_internet_gateway",
    "aws:ec2/keyPair:KeyPair": "aws_key_pair",
    "aws:ec2/placementGroup:PlacementGroup": "aws_placement_group",
    "aws:ec2/route:Route": "aws_route",
    "aws:ec2/routeTable:RouteTable": "aws_route_table",
    "aws:ec2/routeTableAssociation:RouteTableAssociation": "aws_route_table_association",
    "aws:ec2/securityGroup:SecurityGroup": "aws_security_group",
    "aws:ec2/subnet:Subnet": "aws_subnet",
    "aws:ec2/vpc:Vpc": "aws_vpc",
    "aws:ec2/vpcEndpoint:VpcEndpoint": "aws_vpc_endpoint",
    "aws:iam/instanceProfile:InstanceProfile": "aws_iam_instance_profile",
    "aws:iam/role:Role": "aws_iam_role",
    "aws:iam/rolePolicy:RolePolicy": "aws_iam_role_policy",
    "aws:s3/bucket:Bucket": "aws_s3_bucket",
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": (
        "aws_s3_bucket_lifecycle_configuration"
    ),
    "aws:s3/bucketPolicy:BucketPolicy": "aws_s3_bucket_policy",
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": "aws_s3_bucket_public_access_block",
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": (
        "aws_s3_bucket_server_side_encryption_configuration"
    ),
    "aws:s3/bucketVersioning:BucketVersioning": "aws_s3_bucket_versioning",
    "aws:scheduler/schedule:Schedule": "aws_scheduler_schedule",
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": "aws_vpc_security_group_egress_rule",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": (
        "aws_vpc_security_group_ingress_rule"
    ),
    "gcp:compute/firewall:Firewall": "google_compute_firewall",
    "gcp:compute/instance:Instance": "google_compute_instance",
    "gcp:compute/network:Network": "google_compute_network",
    "gcp:compute/subnetwork:Subnetwork": "google_compute_subnetwork",
    "gcp:serviceaccount/account:Account": "google_service_account",
    "gcp:storage/bucket:Bucket": "google_storage_bucket",
    "gcp:storage/bucketIAMMember:BucketIAMMember": "google_storage_bucket_iam_member",
}
# Lists of blocks: Terraform writes each block by itself, under the singular.
BLOCKS = {
    "accessConfigs": "access_config",
    "allows": "allow",
    "denies": "deny",
    "guestAccelerators": "guest_accelerator",
    "lifecycleRules": "lifecycle_rule",
    "networkInterfaces": "network_interface",
    "rules": "rule",
}
MAPS = ("labels", "metadata", "tags")  # their keys are the user's own


def plan(made: Made) -> dict[str, Any]:
    """The plan of all that a program made; KeyError for what has no Terraform name here."""
    ours = [resource for resource in made.resources if resource.type in made.kinds]
    addresses = {resource.urn: address(resource) for resource in ours}
    request = {"resources": [_known_values(resource, addresses) for resource in ours]}
    written = {"resources": [_written(resource, addresses) for resource in ours]}
    return {
        "format_version": "1.2",
        "terraform_version": "1.9.0",
        "planned_values": {"root_module": request},
        "configuration": {"root_module": written},
    }


def address(resource: Resource) -> str:
    """The name of a resource in a plan, as in aws_instance.c-1."""
    return f"{TYPES[resource.type]}.{_name(resource)}"


def _name(resource: Resource) -> str:
    return re.sub(r"[^\w-]", "-", resource.name)


def _frame(resource: Resource) -> dict[str, Any]:
    names = {"address": address(resource), "type": TYPES[resource.type], "name": _name(resource)}
    return {**names, "mode": "managed"}


def _known_values(resource: Resource, addresses: Mapping[str, str]) -> dict[str, Any]:
    """The values that Terraform would know: what is another's id alone, it would not."""
    unknown = [
        key for key in _references(resource, addresses) if _is_bare(resource.inputs.get(key))
    ]
    known = {key: value for key, value in resource.inputs.items() if key not in unknown}
    return {**_frame(resource), "values": _values(known)}


def _written(resource: Resource, addresses: Mapping[str, str]) -> dict[str, Any]:
    """Which resource refers to which: many checks are about two that belong together."""
    references = _references(resource, addresses)
    return {
        **_frame(resource),
        "expressions": {_snake(key): {"references": each} for key, each in references.items()},
    }


def _references(resource: Resource, addresses: Mapping[str, str]) -> dict[str, list[str]]:
    references = {}
    for key, urns in resource.refers.items():
        there = [addresses[urn] for urn in urns if urn in addresses]
        if there:
            references[key] = [f"{there[0]}.id", *there]
    return references


def _is_bare(value: Any) -> bool:
    """Whether a value is a name, or names: no block, and no policy, which is JSON."""
    if isinstance(value, list):
        return all(_is_bare(each) for each in value)
    return isinstance(value, str) and not value.startswith("{")


def _values(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return dict(_property(key, value) for key, value in inputs.items())


def _property(key: str, value: Any) -> tuple[str, Any]:
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        return BLOCKS[key], [_values(each) for each in value]
    if isinstance(value, dict):
        return _snake(key), dict(value) if key in MAPS else [_values(value)]
    whole = isinstance(value, float) and value.is_integer()
    return _snake(key), int(value) if whole else value


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: f"_{match[1].lower()}", key)


def altered(made: Made, kind: str, **inputs: Any) -> Made:
    """The same cluster with other inputs in every resource of a type."""
    made.every(kind)
    others = [_given(r, inputs) if r.type == kind else r for r in made.resources]
    return Made(others, made.calls, made.outputs, made.messages)


def without(made: Made, kind: str) -> Made:
    """The same cluster without the resources of a type."""
    made.every(kind)
    others = [resource for resource in made.resources if resource.type != kind]
    return Made(others, made.calls, made.outputs, made.messages)


def _given(resource: Resource, inputs: Mapping[str, Any]) -> Resource:
    """What was another resource's is none's now."""
    refers = {key: urns for key, urns in resource.refers.items() if key not in inputs}
    return Resource(**{**vars(resource), "inputs": {**resource.inputs, **inputs}, "refers": refers})
