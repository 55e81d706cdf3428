"""Policies as administrators write them, against a small simulator with IAM's rules.

They name resources and conditions. Whoever may create the stack is never refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import pytest

from bootstrap.clouds.aws import examiner, rights
from bootstrap.clouds.base import Refused
from bootstrap.clouds.request import StackRequest
from railhead.documents.codec import encode
from railhead.documents.doctor import Check

ACCOUNT = "123456789012"
Statement = Mapping[str, Any]


@dataclass
class Iam:
    """A user with a policy. `simulates`: whether the user may simulate it; `arn`: who it is."""

    statements: Sequence[Statement]
    simulates: bool = True
    arn: str = f"arn:aws:iam::{ACCOUNT}:user/ann"

    def __call__(self, service: str, operation: str, **parameters: Any) -> Any:
        if operation == "get_caller_identity":
            return {"Account": ACCOUNT, "Arn": self.arn}
        if operation == "get_role":
            role = f"arn:aws:iam::{ACCOUNT}:role/path/{parameters['RoleName']}"
            if self._decide("iam:GetRole", role)[0] != "allowed":
                raise Refused("not authorized to read the role", "AccessDenied")
            return {"Role": {"Arn": role, "RoleName": parameters["RoleName"]}}
        if operation == "simulate_principal_policy":
            self.simulated = parameters["PolicySourceArn"]
            if not self.simulates:
                raise Refused("not authorized to simulate", "AccessDenied")
            actions, arns = parameters["ActionNames"], parameters["ResourceArns"]
            return {"EvaluationResults": [self._result(action, arns) for action in actions]}
        if parameters.get("DryRun"):
            may = self._decide(rights.action_of(service, operation), "*")[0] == "allowed"
            raise Refused("", "DryRunOperation" if may else "UnauthorizedOperation")
        return {"Vpcs": []}

    def _result(self, action: str, arns: Sequence[str]) -> Any:
        each = [self._decide(action, arn) for arn in arns]
        result: dict[str, Any] = {"EvalActionName": action}
        result["EvalDecision"] = max(decision for decision, _ in each)  # the worst
        if arns == ["*"]:
            return result | {"MissingContextValues": each[0][1]}
        return result | {
            "ResourceSpecificResults": [
                {"EvalResourceDecision": decision, "MissingContextValues": missing}
                for decision, missing in each
            ]
        }

    def _decide(self, action: str, arn: str) -> tuple[str, list[str]]:
        missing: list[str] = []
        for statement in self.statements:
            named = any(fnmatchcase(action, pattern) for pattern in statement["Action"])
            if named and any(fnmatchcase(arn, pattern) for pattern in statement["Resource"]):
                if "Condition" not in statement:
                    return "allowed", []
                missing.append(str(statement["Condition"]))
        return "implicitDeny", missing


def allow(*actions: str, on: str = "*", **more: str) -> Statement:
    return {"Action": actions, "Resource": [on], **more}


def full(request: StackRequest) -> list[Statement]:
    """The document of `fab doctor --policy`."""
    document = json.loads(json.dumps(encode(rights.policy(request))))
    return list(document["Statement"])


def found(
    request: StackRequest, *statements: Statement, simulates: bool = True
) -> dict[str, Check]:
    user = Iam(statements, simulates)
    return {check.name: check for check in examiner.checks(request, user)}


def aws(**config: str) -> StackRequest:
    return StackRequest("aws", {"cloud": "aws", "region": "us-east-1", **config})


ASSUMED = f"arn:aws:sts::{ACCOUNT}:assumed-role/team/ann"


@pytest.mark.parametrize(
    ("reads", "role"), [(True, "role/path/team"), (False, "role/team")], ids=["reads", "does not"]
)
def test_whoever_has_assumed_a_role_has_its_rights(reads: bool, role: str) -> None:
    """The document is enough to read it; without this right, a role without a path is known."""
    statements = [
        {**statement, "Action": [a for a in statement["Action"] if reads or a != "iam:GetRole"]}
        for statement in full(aws())
    ]
    iam = Iam([*statements, allow("iam:GetRole", on=rights.ROLES.format(account="*"))], arn=ASSUMED)
    checks = {check.name: check for check in examiner.checks(aws(), iam)}
    assert checks["rights"].state == "ok"
    assert iam.simulated == f"arn:aws:iam::{ACCOUNT}:{role}"


@pytest.mark.parametrize(
    "config", [{}, {"network": "vpc-1"}, {"bucket_name": "ours"}, {"spot": "true"}]
)
def test_the_document_for_an_administrator_is_enough(config: dict[str, str]) -> None:
    assert found(aws(**config), *full(aws(**config)))["rights"].state == "ok"


def test_a_policy_for_one_region_one_cluster_and_the_objects_of_its_bucket_is_enough() -> None:
    iam = f"arn:aws:iam::{ACCOUNT}"
    checks = found(
        aws(name="gpu"),
        allow("ec2:Describe*", "iam:List*", "servicequotas:*", "ssm:*"),
        allow("ec2:*", on=f"arn:aws:ec2:us-east-1:{ACCOUNT}:*"),
        allow("iam:*", on=f"{iam}:role/railhead-gpu-*"),
        allow("iam:*", on=f"{iam}:instance-profile/railhead-gpu-*"),
        allow("scheduler:*", on="arn:aws:scheduler:*:*:schedule/default/railhead-gpu-*"),
        allow("s3:*Bucket*", "s3:*Configuration", on="arn:aws:s3:::railhead-gpu-*"),
        allow("s3:*Object*", "s3:Abort*", on="arn:aws:s3:::railhead-gpu-*/*"),
    )
    assert "blocks" not in {check.state for check in checks.values()}, checks["rights"].evidence


def test_a_condition_on_a_resource_is_not_a_missing_right() -> None:
    """As most policies have it: a role may be passed to EC2 alone."""
    others = [statement for statement in full(aws()) if "iam:PassRole" not in statement["Action"]]
    (roles,) = (statement for statement in full(aws()) if "iam:PassRole" in statement["Action"])
    rest = {**roles, "Action": [a for a in roles["Action"] if a != "iam:PassRole"]}
    to_ec2 = {**roles, "Action": ["iam:PassRole"], "Condition": "iam:PassedToService"}
    checks = found(aws(), *others, rest, to_ec2)
    assert checks["rights"].state == "ok" and "iam:PassRole" in checks["conditions"].evidence
    assert found(aws(), *others, rest)["rights"].state == "blocks"


def test_who_uses_an_existing_network_needs_no_right_to_create_one() -> None:
    names = ("ec2:CreateVpc", "ec2:DeleteVpc", "ec2:CreateSubnet", "ec2:CreateInternetGateway")
    less = [
        {**statement, "Action": [name for name in statement["Action"] if name not in names]}
        for statement in full(aws())
    ]
    for simulates in (True, False):
        states = found(aws(network="vpc-1"), *less, simulates=simulates)
        assert states["rights"].state == ("ok" if simulates else "unknown")
    assert found(aws(), *less)["rights"].state == "blocks"


def test_a_user_who_only_reads_is_stopped_and_a_stack_that_exists_is_not() -> None:
    reads = allow("*:Describe*", "*:Get*", "*:List*")
    assert found(aws(), reads)["rights"].state == "blocks"
    exists = StackRequest("aws", {"cloud": "aws"}, frozenset({"aws:ec2/instance:Instance"}))
    assert found(exists, reads)["rights"].state == "warns"


def test_requests_without_tags_only_warn() -> None:
    """A policy may require tags of all that is created: they are not in a dry run."""
    tagged = [{**allow("ec2:*"), "Condition": "aws:RequestTag/team"}]
    check = found(aws(), allow("ec2:Describe*"), *tagged, simulates=False)["rights"]
    assert check.state == "warns" and "ec2:CreateVpc" in check.evidence
