"""What a user or a role may do, as IAM itself evaluates it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass

from ..base import Refused
from .client import UNAUTHORIZED, AwsClient, items
from .kinds import ID

OPERATION = "simulate_principal_policy"
ACTIONS = 50  # in one request


@dataclass(frozen=True)
class OfResource:
    """The decision about one action on one resource."""

    EvalResourceDecision: str = ""
    MissingContextValues: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """What IAM decides about one action."""

    EvalActionName: str
    EvalDecision: str
    MissingContextValues: tuple[str, ...] = ()
    ResourceSpecificResults: tuple[OfResource, ...] = ()
    OrganizationsDecisionDetail: bool = key(True, path="AllowedByOrganizations")

    @property
    def is_conditional(self) -> bool:
        """Whether it depends on conditions that are not known here. IAM lists them in one field if
        the request names no resource, in another if it names one."""
        of_resources = self.ResourceSpecificResults
        missing = [self.MissingContextValues, *(o.MissingContextValues for o in of_resources)]
        return any(missing) or any(o.EvalResourceDecision == "allowed" for o in of_resources)


def simulate(
    client: AwsClient,
    principal: str,
    arns: Sequence[str],
    names: Sequence[str],
    tags: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Decision]:
    """The decisions about actions of a user or a role on resources that have these tags. Refused:
    the caller may not ask for them."""
    for start in range(0, len(names), ACTIONS):
        parameters: dict[str, Any] = {
            "PolicySourceArn": principal,
            "ActionNames": names[start : start + ACTIONS],
            "ResourceArns": [*arns],
        }
        if tags:
            parameters["ContextEntries"] = [_tag(*item) for item in tags.items()]
        named = ("iam", OPERATION, "EvaluationResults", "Marker")
        yield from items(Decision, client, *named, **parameters)


def _tag(name: str, value: str) -> dict[str, Any]:
    key = f"ec2:ResourceTag/{name}"
    return {"ContextKeyName": key, "ContextKeyValues": [value], "ContextKeyType": "string"}


@dataclass(frozen=True)
class Right:
    """Whether a role has a right: `why_not` is the reason if it has not, `unknown` the reason if
    that cannot be determined."""

    why_not: str = ""
    unknown: str = ""


def right_to(
    client: AwsClient, role: str, verb: str, instance: str, region: str, cluster_id: str
) -> Right:
    """Whether a role, by its ARN, may `stop` or `terminate` an instance of a cluster. Refused: AWS
    refuses for another reason than a missing right of the caller."""
    _, partition, _, _, account, name = (*role.split(":", 5), *[""] * 5)[:6]
    name = name.rpartition("/")[2]
    action = f"ec2:{verb.capitalize()}Instances"
    arn = f"arn:{partition}:ec2:{region}:{account}:instance/{instance}"
    try:
        (decided,) = simulate(client, role, [arn], [action], {ID: cluster_id})
    except Refused as refused:
        if refused.error_code == "NoSuchEntity":
            return Right(f"its role {name} does not exist")
        if refused.error_code in UNAUTHORIZED:
            return Right(unknown=f"whether its role {name} has {action} is not known")
        raise
    if decided.EvalDecision != "allowed":
        return Right(f"its role {name} has not the right {action}: {decided.EvalDecision}")
    return Right()
