"""The cloud's own deadline: EventBridge Scheduler stops exactly these machines, once.

Its time is fixed when it is made, so that a second `up` changes nothing. `fab start` and
`fab extend` move it through the Scheduler's API. Other machines, or other hours, get a schedule
of their own with a time of its own: the old one's may be long past.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pulumi
from pulumi_aws import ec2, iam, scheduler

from stacks.aws.identity import trust
from stacks.settings import ClusterConfig

KIND = "scheduled-stop"
# What a change of makes other machines, or another deadline.
MACHINES = ("count", "region", "zones", "machine_type", "spot", "placement", "disk_gb", "image")
WHICH = (*MACHINES, "public_key", "network", "deadline_hours")


def deadline(
    config: ClusterConfig,
    account: str,
    machines: Sequence[ec2.Instance],
    opts: pulumi.ResourceOptions,
) -> scheduler.Schedule:
    """A schedule for now and the config's hours, and the role with which it stops machines."""
    role, rights = _role(config, account, machines, opts)
    verb = "terminate" if config.spot else "stop"
    name = f"railhead-{config.name}-stop-{_which(config)}"
    return scheduler.Schedule(
        name,
        name=name,
        description=f"The deadline of the cluster {config.name}",
        schedule_expression=f"at({_in(config.deadline_hours):%Y-%m-%dT%H:%M:%S})",
        schedule_expression_timezone="UTC",
        flexible_time_window=scheduler.ScheduleFlexibleTimeWindowArgs(mode="OFF"),
        # It stays when it has fired: who asks finds a deadline that is past, not none at all.
        action_after_completion="NONE",
        # checkov:skip=CKV_AWS_297: only ids are in it, no secret, and a key of KMS is billed
        target=scheduler.ScheduleTargetArgs(
            arn=f"arn:aws:scheduler:::aws-sdk:ec2:{verb}Instances",
            role_arn=role.arn,
            input=pulumi.Output.all(*[one.id for one in machines]).apply(
                lambda ids: json.dumps({"InstanceIds": ids})
            ),
        ),
        opts=pulumi.ResourceOptions.merge(
            opts,
            pulumi.ResourceOptions(depends_on=[rights], ignore_changes=["scheduleExpression"]),
        ),
    )


def documented(name: str, expression: str, hours: float) -> dict[str, Any]:
    """A deadline as the cluster document has it: when it is, and how long each start is to have."""
    at = expression.removeprefix("at(").removesuffix(")")
    return {"kind": KIND, "id": name, "at": f"{at}Z", "seconds": round(hours * 3600)}


def _in(hours: float) -> datetime:
    return datetime.now(timezone.utc) + timedelta(hours=hours)


def _which(config: ClusterConfig) -> str:
    """A short mark of which machines these are, and of the hours: not of who made them."""
    told = [getattr(config, word) for word in WHICH]
    return hashlib.sha256(repr(told).encode()).hexdigest()[:6]


def _role(
    config: ClusterConfig,
    account: str,
    machines: Sequence[ec2.Instance],
    opts: pulumi.ResourceOptions,
) -> tuple[iam.Role, iam.RolePolicy]:
    """The Scheduler's role, for this account's schedules in its default group only."""
    group = f"arn:aws:scheduler:{config.region}:{account}:schedule-group/default"
    whose = {"aws:SourceAccount": account, "aws:SourceArn": group}
    role = iam.Role(
        f"railhead-{config.name}-deadline",
        description=f"Stops the machines of the cluster {config.name}",
        assume_role_policy=json.dumps(trust("scheduler.amazonaws.com", StringEquals=whose)),
        opts=opts,
    )
    rights = iam.RolePolicy(
        f"{config.name}-deadline",
        role=role.id,
        policy=pulumi.Output.all(*[one.arn for one in machines]).apply(
            lambda arns: json.dumps(rights_over(arns, spot=config.spot))
        ),
        opts=opts,
    )
    return role, rights


def rights_over(arns: Sequence[str], *, spot: bool) -> dict[str, object]:
    """To stop these machines, or to end them where they cannot be stopped. No others."""
    action = "ec2:TerminateInstances" if spot else "ec2:StopInstances"
    statement = {"Effect": "Allow", "Action": [action], "Resource": list(arns)}
    return {"Version": "2012-10-17", "Statement": [statement]}
