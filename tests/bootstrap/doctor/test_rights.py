"""The declared rights are those of the resources that stacks register, and of the calls of fab."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore import xform_name
from botocore.session import get_session
from places import ROOT

from bootstrap.clouds.aws import rights as aws
from bootstrap.clouds.gcp import rights as gcp
from bootstrap.clouds.request import StackRequest

AWS_CODE = [*(ROOT / "bootstrap/clouds/aws").glob("*.py"), ROOT / "bootstrap/host/buckets/s3.py"]
NO_RESOURCES = {"Provider"}  # of pulumi-aws and pulumi-gcp


def constructed(cloud: str) -> Iterator[str]:
    """The classes of resources in the code of a cloud's stacks, as `ec2.Vpc`."""
    for path in (ROOT / "stacks" / cloud).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)) if name[
                    0
                ].isupper() and not name.endswith(("Args", "Options", "Resource")):
                    yield f"{module}.{name}"


def texts(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from node.value.split()


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_each_resource_of_a_stack_has_its_rights(cloud: str) -> None:
    declared = {"aws": aws, "gcp": gcp}[cloud].RESOURCES
    modules = {name.partition(".")[0] for name in declared}
    used = {name for name in constructed(cloud) if name.partition(".")[0] in modules}
    assert used == {*declared}


@pytest.mark.parametrize("service", ["ec2", "iam", "scheduler", "service-quotas", "sts"])
def test_each_call_to_aws_has_its_right(service: str) -> None:
    """Every text in the code that is the name of an operation of boto3."""
    operations = {xform_name(n) for n in get_session().get_service_model(service).operation_names}
    modules = {path.name for path in AWS_CODE} - {"rights.py"}
    used = {text for path in AWS_CODE if path.name in modules for text in texts(path)} & operations
    granted = {action for statement in aws.policy(None).Statement for action in statement.Action}
    assert used and {aws.action_of(service, call) for call in used} - {""} <= granted


@pytest.mark.parametrize("service", sorted(aws.CALLS))
def test_each_declared_call_exists(service: str) -> None:
    operations = {xform_name(n) for n in get_session().get_service_model(service).operation_names}
    declared = f"{aws.CALLS[service]} {aws.BESIDES.get(service, '')}"
    assert {*declared.split()} <= operations


def test_a_stack_without_a_bucket_needs_no_right_on_buckets() -> None:
    without = StackRequest("aws", {"bucket": "false"})
    actions = {action for statement in aws.policy(without).Statement for action in statement.Action}
    assert "s3:CreateBucket" not in actions and "ec2:CreateVpc" in actions
    permissions = gcp.names(StackRequest("gcp", {"bucket": "false"}))
    assert not [name for name in permissions if name.startswith("storage.")]


def test_a_policy_is_the_least_on_what_has_a_name() -> None:
    statements = aws.policy(StackRequest("aws", {"region": "eu-west-1"})).Statement
    by_action = {
        action: statement.Resource for statement in statements for action in statement.Action
    }
    assert by_action["iam:PassRole"] == ("arn:aws:iam::*:role/railhead-*",)
    assert by_action["scheduler:CreateSchedule"][0].split(":")[3] == "eu-west-1"
    assert by_action["s3:PutObject"] == ("arn:aws:s3:::railhead-*", "arn:aws:s3:::railhead-*/*")
    assert len(by_action) == sum(len(statement.Action) for statement in statements), (
        "one is there twice"
    )


# What the providers call besides the obvious, by their source: aws_security_group and aws_subnet
# remove leftover network interfaces, a new group loses its rule, aws_instance reads the request of
# a spot machine, aws_servicequotas_service_quota reads the default first.
CALLS_OF_PROVIDERS = [
    ({"network": "vpc-1"}, "ec2:DescribeNetworkInterfaces ec2:RevokeSecurityGroupEgress"),
    ({"network": "vpc-1"}, "ec2:RevokeSecurityGroupIngress ec2:ModifyVolume"),
    ({}, "ec2:DescribeNetworkInterfaces servicequotas:GetAWSDefaultServiceQuota"),
    ({}, "ec2:ReplaceIamInstanceProfileAssociation iam:UpdateRoleDescription"),
    ({"spot": "true"}, "ec2:DescribeSpotInstanceRequests iam:CreateServiceLinkedRole"),
    ({"quotas": "request"}, "servicequotas:GetRequestedServiceQuotaChange"),
]


@pytest.mark.parametrize(("config", "actions"), CALLS_OF_PROVIDERS)
def test_the_policy_has_what_providers_call_besides(config: dict[str, str], actions: str) -> None:
    statements = aws.policy(StackRequest("aws", config)).Statement
    assert {*actions.split()} <= {action for statement in statements for action in statement.Action}
    assert len({statement.Sid for statement in statements}) == len(statements), (
        "IAM refuses a Sid twice"
    )


def test_only_the_role_of_spot_machines_may_be_created_for_a_service() -> None:
    statements = aws.policy(StackRequest("aws", {"spot": "true"})).Statement
    (role,) = (
        statement.Resource
        for statement in statements
        if "iam:CreateServiceLinkedRole" in statement.Action
    )
    assert role == ("arn:aws:iam::*:role/aws-service-role/spot.amazonaws.com/*",)
    without = aws.policy(StackRequest("aws", {})).Statement
    assert not [
        statement for statement in without if "iam:CreateServiceLinkedRole" in statement.Action
    ]


def test_each_request_to_google_names_the_project_that_pays_for_it() -> None:
    assert "serviceusage.services.use" in gcp.names(StackRequest("gcp", {}))


def test_a_bucket_with_another_name_is_in_the_policy() -> None:
    config = {"bucket_name": "our-results"}
    resources = [
        statement.Resource for statement in aws.policy(StackRequest("aws", config)).Statement
    ]
    assert ("arn:aws:s3:::our-results", "arn:aws:s3:::our-results/*") in resources
