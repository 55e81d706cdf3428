"""The cloud's own deadline: EventBridge Scheduler stops exactly these machines, once.

Its time is fixed when it is made, so that a second `up` changes nothing. `fab start` and
`fab extend` move it through the Scheduler's API. Other machines, or another `deadline_hours`, get
a new schedule: the time of the old one may be in the past.
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
# Settings whose change makes other machines, or another deadline. Their order is in the digest.
MACHINES = ("count", "region", "zones", "machine_type", "spot", "placement", "disk_gb", "image")
IDENTITY = (*MACHINES, "public_key", "network", "deadline_hours")


def schedule(
    config: ClusterConfig,
    account: str,
    machines: Sequence[ec2.Instance],
    opts: pulumi.ResourceOptions,
) -> scheduler.Schedule:
    """A schedule that fires `deadline_hours` from now, and the role that stops the machines."""
    role, rights = _role(config, account, machines, opts)
    verb = "terminate" if config.spot else "stop"
    name = f"railhead-{config.name}-stop-{_digest(config)}"
    return scheduler.Schedule(
        name,
        name=name,
        description=f"The deadline of the cluster {config.name}",
        schedule_expression=f"at({_in(config.deadline_hours):%Y-%m-%dT%H:%M:%S})",
        schedule_expression_timezone="UTC",
        flexible_time_window=scheduler.ScheduleFlexibleTimeWindowArgs(mode="OFF"),
        # It stays after it fired, so that `fab status` finds a past deadline and not a missing one.
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


def document_entry(name: str, expression: str, hours: float) -> dict[str, Any]:
    """The deadline in the cluster document: its time, and the seconds that each start gets."""
    at = expression.removeprefix("at(").removesuffix(")")
    return {"kind": KIND, "id": name, "at": f"{at}Z", "seconds": round(hours * 3600)}


def _in(hours: float) -> datetime:
    return datetime.now(timezone.utc) + timedelta(hours=hours)


def _digest(config: ClusterConfig) -> str:
    """A short digest of the settings that make other machines or another deadline."""
    values = [getattr(config, key) for key in IDENTITY]
    return hashlib.sha256(repr(values).encode()).hexdigest()[:6]


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
    """To stop these machines and no others; spot machines cannot be stopped, so terminate them."""
    action = "ec2:TerminateInstances" if spot else "ec2:StopInstances"
    statement = {"Effect": "Allow", "Action": [action], "Resource": list(arns)}
    return {"Version": "2012-10-17", "Statement": [statement]}
