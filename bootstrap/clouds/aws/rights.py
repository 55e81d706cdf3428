"""The rights that Railhead needs on AWS: for each type of resource of a stack, and for each call.

Their names are those of IAM. Sources: the service authorization reference of AWS, and the calls of
Pulumi's provider for these types (terraform-provider-aws, internal/service).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from railhead.documents.lazy import dataclass

from ..request import (
    Part,
    StackRequest,
    When,
    always,
    with_bucket,
    with_own_network,
    with_quota_request,
    with_spot,
)

ROLES = "arn:aws:iam::{account}:role/railhead-*"
SPOT_ROLE = "arn:aws:iam::{account}:role/aws-service-role/spot.amazonaws.com/*"
PROFILES = "arn:aws:iam::{account}:instance-profile/railhead-*"
SCHEDULES = "arn:aws:scheduler:{region}:{account}:schedule/default/railhead-*"
BUCKETS = "arn:aws:s3:::railhead-*"
OBJECT = re.compile("s3:(Get|Put|Delete)Object(Version)?|s3:AbortMultipartUpload")  # not of buckets

# The actions of a service that its resources need, by their class in pulumi-aws.
_OF_EVERY_STACK = {
    "ec2.KeyPair": "ImportKeyPair DescribeKeyPairs DeleteKeyPair CreateTags DeleteTags",
    "ec2.PlacementGroup": "CreatePlacementGroup DescribePlacementGroups DeletePlacementGroup",
    "ec2.Instance": "RunInstances DescribeInstances DescribeInstanceTypes"
    " DescribeInstanceAttribute ModifyInstanceAttribute DescribeVolumes DescribeTags"
    " StartInstances StopInstances TerminateInstances",
    # AWS adds a rule to a new group, which the provider removes.
    "ec2.SecurityGroup": "CreateSecurityGroup DescribeSecurityGroups DescribeSecurityGroupRules"
    " AuthorizeSecurityGroupIngress AuthorizeSecurityGroupEgress RevokeSecurityGroupIngress"
    " RevokeSecurityGroupEgress DescribeNetworkInterfaces DeleteSecurityGroup",
}
_OF_OWN_NETWORK = {
    "ec2.Vpc": "CreateVpc DescribeVpcs DescribeVpcAttribute ModifyVpcAttribute DeleteVpc"
    " DescribeNetworkAcls DescribeRouteTables",
    "ec2.DefaultSecurityGroup": "DescribeSecurityGroups RevokeSecurityGroupIngress"
    " RevokeSecurityGroupEgress",
    "ec2.Subnet": "CreateSubnet DescribeSubnets ModifySubnetAttribute DeleteSubnet"
    " DescribeNetworkInterfaces",
    "ec2.InternetGateway": "CreateInternetGateway AttachInternetGateway DescribeInternetGateways"
    " DetachInternetGateway DeleteInternetGateway",
    "ec2.RouteTable": "CreateRouteTable DescribeRouteTables DeleteRouteTable",
    "ec2.Route": "CreateRoute DeleteRoute",
    "ec2.RouteTableAssociation": "AssociateRouteTable DisassociateRouteTable",
    "ec2.VpcEndpoint": "CreateVpcEndpoint DescribeVpcEndpoints ModifyVpcEndpoint"
    " DeleteVpcEndpoints DescribePrefixLists",
}
_OF_BUCKET = {
    "s3.Bucket": "CreateBucket DeleteBucket ListBucket GetBucketLocation GetBucketAcl"
    " GetBucketCORS GetBucketWebsite GetBucketVersioning GetAccelerateConfiguration"
    " GetBucketRequestPayment GetBucketLogging GetLifecycleConfiguration"
    " GetReplicationConfiguration GetEncryptionConfiguration GetBucketObjectLockConfiguration"
    " GetBucketPolicy GetBucketTagging PutBucketTagging GetBucketPublicAccessBlock",
    "s3.BucketPolicy": "PutBucketPolicy DeleteBucketPolicy",
    "s3.BucketVersioning": "PutBucketVersioning",
    "s3.BucketPublicAccessBlock": "PutBucketPublicAccessBlock",
    "s3.BucketServerSideEncryptionConfiguration": "PutEncryptionConfiguration",
    "s3.BucketLifecycleConfiguration": "PutLifecycleConfiguration",
}
_OTHERS = {  # and on which resources, of which stacks
    "iam.Role": (
        "CreateRole GetRole DeleteRole TagRole UntagRole ListRoleTags UpdateAssumeRolePolicy"
        " UpdateRole ListRolePolicies ListAttachedRolePolicies ListInstanceProfilesForRole"
        " PassRole",
        ROLES, always),
    "iam.RolePolicy": ("PutRolePolicy GetRolePolicy DeleteRolePolicy", ROLES, always),
    "iam.InstanceProfile": (
        "CreateInstanceProfile GetInstanceProfile DeleteInstanceProfile AddRoleToInstanceProfile"
        " RemoveRoleFromInstanceProfile TagInstanceProfile",
        PROFILES, with_bucket),
    "scheduler.Schedule": (
        "CreateSchedule GetSchedule UpdateSchedule DeleteSchedule", SCHEDULES, always),
    "servicequotas.ServiceQuota": (
        "RequestServiceQuotaIncrease GetRequestedServiceQuotaChange", "*", with_quota_request),
}  # fmt: skip


def _part(name: str, actions: str, resource: str = "*", when: When = always) -> Part:
    service = name.partition(".")[0]
    return Part(" ".join(f"{service}:{action}" for action in actions.split()), resource, when)


RESOURCES: dict[str, Part] = {
    **{name: _part(name, actions) for name, actions in _OF_EVERY_STACK.items()},
    **{name: _part(name, acts, when=with_own_network) for name, acts in _OF_OWN_NETWORK.items()},
    **{name: _part(name, acts, BUCKETS, with_bucket) for name, acts in _OF_BUCKET.items()},
    **{name: _part(name, *row) for name, row in _OTHERS.items()},
}
SPOT = Part("ec2:DescribeSpotInstanceRequests", when=with_spot)
# Not needed to create a stack, but later: for another size of the disks or another bucket; for
# another name of the cluster; for the first spot machine of an account.
LATER = (
    Part(
        "ec2:ModifyVolume ec2:DescribeVolumesModifications"
        " ec2:DescribeIamInstanceProfileAssociations ec2:AssociateIamInstanceProfile"
        " ec2:ReplaceIamInstanceProfileAssociation ec2:DisassociateIamInstanceProfile"
    ),
    Part("iam:UpdateRoleDescription", ROLES),
    Part("iam:CreateServiceLinkedRole", SPOT_ROLE, when=with_spot),
)
# What a preview reads, and then the calls of `fab`; `action_of` gives the action for a call.
LOOKUPS = Part(
    "ec2:DescribeInstanceTypeOfferings ec2:DescribeAvailabilityZones ec2:DescribeImages"
    " servicequotas:GetServiceQuota servicequotas:GetAWSDefaultServiceQuota ssm:GetParameter"
)
CALLS = {
    "ec2": "describe_instances describe_volumes describe_security_group_rules describe_vpcs"
    " describe_vpc_endpoints describe_security_groups describe_route_tables describe_subnets"
    " describe_internet_gateways describe_key_pairs describe_placement_groups start_instances"
    " stop_instances terminate_instances get_console_output detach_internet_gateway"
    " disassociate_route_table delete_vpc_endpoints delete_security_group delete_route_table"
    " delete_subnet delete_internet_gateway delete_vpc delete_key_pair delete_placement_group",
    "iam": "list_roles list_role_tags list_instance_profiles_for_role list_role_policies"
    " remove_role_from_instance_profile delete_instance_profile delete_role_policy delete_role"
    " get_role",
    "scheduler": "get_schedule update_schedule delete_schedule",
    "service-quotas": "get_service_quota",
    "sts": "get_caller_identity",
    "s3": "get_object put_object list_objects_v2 list_object_versions delete_objects head_bucket"
    " create_multipart_upload upload_part complete_multipart_upload abort_multipart_upload",
}
# Further calls, of `fab leaks` and `fab doctor`: a stack does not need them.
BESIDES = {
    "iam": "simulate_principal_policy",
    "ec2": "describe_regions describe_volumes describe_snapshots describe_addresses delete_volume"
    " delete_snapshot disassociate_address release_address"
    " describe_vpc_block_public_access_options get_ebs_default_kms_key_id"
    " describe_spot_price_history",
    "pricing": "get_products",
    "kms": "describe_key",
    "scheduler": "list_schedules",
    "s3": "list_buckets get_bucket_tagging get_bucket_location delete_bucket",
}
# `fab doctor` reads the role of whoever calls it, which may have any name.
OWN_ROLE = Part("iam:GetRole")
_PREFIX = {"service-quotas": "servicequotas"}
# Calls whose action has another name; those without any need no right.
_ACTIONS = {
    "s3:HeadBucket": "s3:ListBucket",
    "s3:ListBuckets": "s3:ListAllMyBuckets",
    "s3:ListObjectsV2": "s3:ListBucket",
    "s3:ListObjectVersions": "s3:ListBucketVersions",
    "s3:DeleteObjects": "s3:DeleteObject s3:DeleteObjectVersion",
    "s3:CreateMultipartUpload": "s3:PutObject",
    "s3:UploadPart": "s3:PutObject",
    "s3:CompleteMultipartUpload": "s3:PutObject",
    "sts:GetCallerIdentity": "",
}


def parts() -> tuple[Part, ...]:
    """What a stack needs: of the resources, of the preview, and of the calls."""
    return (*RESOURCES.values(), SPOT, LOOKUPS, *(_part_of(s, calls) for s, calls in CALLS.items()))


def _part_of(service: str, calls: str) -> Part:
    actions = " ".join(action_of(service, call) for call in calls.split())
    if service == "s3":
        return Part(actions, BUCKETS, when=with_bucket)
    return Part(actions)


def action_of(service: str, call: str) -> str:
    """The actions of IAM for a call of boto3: `describe_vpcs` is ec2:DescribeVpcs."""
    name = "".join(word.capitalize() for word in call.split("_"))
    action = f"{_PREFIX.get(service, service)}:{name}"
    return _ACTIONS.get(action, action)


def by_resource(
    request: StackRequest | None, account: str = "*", region: str = "*", more: Sequence[Part] = ()
) -> dict[str, list[str]]:
    """The rights that a stack needs, by the ARN that they apply to; all without a stack."""
    names: dict[str, set[str]] = {}
    unneeded = _unneeded(request)
    for part in (*parts(), *more):
        if part.is_needed(request):
            resource = part.resource.format(account=account, region=region)
            names.setdefault(resource, set()).update({*part.names} - unneeded)
    anywhere = {*OWN_ROLE.names} if OWN_ROLE in more else set()
    for arn in {*names} - {"*"}:
        names[arn] -= anywhere
        names["*"] -= names[arn]
    return {arn: sorted(rights) for arn, rights in sorted(names.items())}


def _unneeded(request: StackRequest | None) -> set[str]:
    """The rights to change only what this stack does not create, such as a VPC if it uses an
    existing one: `fab` has calls that remove VPCs."""
    needed = {name for p in RESOURCES.values() if p.is_needed(request) for name in p.names}
    every = {name for part in RESOURCES.values() for name in part.names}
    return {name for name in every - needed if not name.startswith("ec2:Describe")}


@dataclass(frozen=True)
class Statement:
    """A statement of a policy; the fields have IAM's names."""

    Sid: str
    Action: tuple[str, ...]
    Resource: tuple[str, ...]
    Effect: str = "Allow"


@dataclass(frozen=True)
class Policy:
    """A policy document of IAM."""

    Statement: tuple[Statement, ...]
    Version: str = "2012-10-17"


def policy(request: StackRequest | None) -> Policy:
    """An IAM policy document with all rights, also those for later changes of a stack, for `fab
    leaks` and for `fab doctor`."""
    besides = [Part(_part_of(service, calls).rights) for service, calls in BESIDES.items()]
    besides += [OWN_ROLE, *LATER]
    account, region = "*", request.region if request else "*"
    return Policy(
        tuple(
            Statement(_statement_id(arn), tuple(rights), _resources(arn, request))
            for arn, rights in by_resource(request, account, region, besides).items()
        )
    )


def _statement_id(arn: str) -> str:
    service = "all" if arn == "*" else arn.split(":")[2]
    kind = re.sub("[^a-z]", "", arn.rpartition("/")[0].rpartition(":")[2])
    return f"railhead{service.capitalize()}{kind.capitalize()}"


def _resources(arn: str, request: StackRequest | None) -> tuple[str, ...]:
    """A bucket and its objects have separate ARNs; a config may choose the bucket's name."""
    if not arn.startswith("arn:aws:s3:::"):
        return (arn,)
    bucket_name = request.config.get("bucket_name") if request else None
    bucket = f"arn:aws:s3:::{bucket_name}" if bucket_name else arn
    return (bucket, f"{bucket}/*")
