"""Whether the role of a schedule may do what the schedule does, as IAM itself evaluates it."""

from __future__ import annotations

from railhead.documents.lazy import dataclass

from ..base import Refused
from .client import UNAUTHORIZED, AwsClient, ask
from .kinds import ID


@dataclass(frozen=True)
class Evaluation:
    """What IAM decides about one action."""

    EvalActionName: str
    EvalDecision: str


@dataclass(frozen=True)
class Simulation:
    """The answer of SimulatePrincipalPolicy."""

    EvaluationResults: tuple[Evaluation, ...]


@dataclass(frozen=True)
class Right:
    """Whether a role has a right: `why_not` where it has not, `unknown` where nobody can say."""

    why_not: str = ""
    unknown: str = ""


def right_to(
    client: AwsClient, role: str, verb: str, instance: str, region: str, cluster_id: str
) -> Right:
    """Whether a role, by its ARN, may `stop` or `terminate` an instance of a cluster.

    Raises:
        Refused: AWS refuses for another reason than a missing right of the caller.
    """
    _, partition, _, _, account, name = (*role.split(":", 5), *[""] * 5)[:6]
    name = name.rpartition("/")[2]
    action = f"ec2:{verb.capitalize()}Instances"
    tag = {
        "ContextKeyName": f"ec2:ResourceTag/{ID}",
        "ContextKeyValues": [cluster_id],
        "ContextKeyType": "string",
    }
    try:
        (decided,) = ask(
            Simulation,
            client,
            "iam",
            "simulate_principal_policy",
            PolicySourceArn=role,
            ActionNames=[action],
            ResourceArns=[f"arn:{partition}:ec2:{region}:{account}:instance/{instance}"],
            ContextEntries=[tag],
        ).EvaluationResults
    except Refused as refused:
        if refused.error_code == "NoSuchEntity":
            return Right(f"its role {name} does not exist")
        if refused.error_code in UNAUTHORIZED:
            return Right(unknown=f"whether its role {name} has {action} is not known")
        raise
    if decided.EvalDecision != "allowed":
        return Right(f"its role {name} has not the right {action}: {decided.EvalDecision}")
    return Right()
