"""The second deadline: for each instance a schedule of EventBridge Scheduler that stops it, once.

It is created as soon as its instance exists, and waits for no other. Its name comes from the
instance's id: a new instance gets a new schedule with a new time. The time is fixed when the
schedule is created. `fab start` and `fab extend` move it through the Scheduler's API. The provider
updates all fields at once, with the time in Pulumi's state: a schedule that was moved would jump
back. So an `up` never updates one; it replaces it for another instance or role.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import pulumi
from pulumi_aws import ec2, iam, scheduler

from railhead.documents.cluster import DocumentDeadline

from ..component.logical_names import named
from ..component.parts import keeping, plus, unique
from ..config.settings import ClusterConfig
from ..timer import deadline
from .identity import trust
from .tags import ID

KIND = "scheduled-stop"
# All fields except the name, which contains the instance's id, and the two that no `up` changes.
REPLACING = ["actionAfterCompletion", "flexibleTimeWindow", "scheduleExpressionTimezone", "target"]


@dataclass(frozen=True)
class StopRole:
    """The role of the schedules, and its policy: no schedule works before both exist. The `prefix`
    of the schedules' names contains the cluster's first name: a new name does not replace
    schedules."""

    role: iam.Role
    rights: iam.RolePolicy
    prefix: pulumi.Output[str]


def stop_role(
    config: ClusterConfig, account: str, own_id: pulumi.Output[str], opts: pulumi.ResourceOptions
) -> StopRole:
    """The role that stops the instances with this cluster id, for this account's schedules in its
    default group only."""
    group = f"arn:aws:scheduler:{config.region}:{account}:schedule-group/default"
    whose = {"aws:SourceAccount": account, "aws:SourceArn": group}
    role = iam.Role(
        named(opts, "deadline-role"),
        name=unique("railhead", config.name, "deadline"),
        description=f"Stops the machines of the cluster {config.name}",
        assume_role_policy=json.dumps(trust("scheduler.amazonaws.com", StringEquals=whose)),
        force_detach_policies=True,  # also a policy of a killed `up` that the state lacks
        opts=keeping(opts, "name"),
    )
    instances = f"arn:aws:ec2:{config.region}:{account}:instance/*"
    rights = iam.RolePolicy(
        named(opts, "deadline"),
        role=role.id,
        policy=own_id.apply(lambda cluster: json.dumps(rights_over(instances, cluster))),
        opts=opts,
    )
    first = pulumi.Stash(
        named(opts, "schedule-prefix"), input=f"railhead-{config.name}", opts=keeping(opts, "input")
    )
    return StopRole(role, rights, first.output)


def rights_over(instances: str, own_id: str) -> dict[str, object]:
    """To stop the instances of a cluster and no others, and to terminate them: spot machines cannot
    be stopped. Always both rights: an `up` that changes `spot` may be interrupted after it has
    changed only this or only the schedules. By tag: an instance's id is known too late, when it
    runs."""
    statement = {
        "Effect": "Allow",
        "Action": ["ec2:StopInstances", "ec2:TerminateInstances"],
        "Resource": [instances],
        "Condition": {"StringEquals": {f"ec2:ResourceTag/{ID}": own_id}},
    }
    return {"Version": "2012-10-17", "Statement": [statement]}


def schedule(
    config: ClusterConfig,
    number: int,
    machine: ec2.Instance,
    stopper: StopRole,
    opts: pulumi.ResourceOptions,
) -> scheduler.Schedule:
    """The schedule of one instance. It fires `deadline_hours` after the instance was created."""
    verb = "terminate" if config.spot else "stop"
    return scheduler.Schedule(
        named(opts, f"host-{number}"),
        name=pulumi.Output.concat(stopper.prefix, "-", machine.id),
        description=f"The deadline of {config.name}-{number}",
        schedule_expression=machine.id.apply(lambda _: _expression(config.deadline_hours)),
        schedule_expression_timezone="UTC",
        flexible_time_window=scheduler.ScheduleFlexibleTimeWindowArgs(mode="OFF"),
        # It stays after it fired, so that `fab status` finds a past deadline and not a missing one.
        action_after_completion="NONE",
        # checkov:skip=CKV_AWS_297: it contains an id and no secret, and a KMS key is billed
        target=scheduler.ScheduleTargetArgs(
            arn=f"arn:aws:scheduler:::aws-sdk:ec2:{verb}Instances",
            role_arn=stopper.role.arn,
            input=machine.id.apply(lambda id: json.dumps({"InstanceIds": [id]})),
        ),
        opts=plus(
            opts,
            depends_on=[stopper.rights],
            ignore_changes=["description", "scheduleExpression"],
            replace_on_changes=REPLACING,
            delete_before_replace=True,  # its name is in use until then
        ),
    )


def _expression(hours: float) -> str:
    """`hours` from now: called when the instance exists, not when the program starts."""
    return f"at({datetime.now(timezone.utc) + timedelta(hours=hours):%Y-%m-%dT%H:%M:%S})"


def document_entry(host: str, name: str, expression: str, hours: float) -> DocumentDeadline:
    """The deadline in the cluster document: its time, and the seconds that each start gets."""
    time = expression.removeprefix("at(").removesuffix(")")
    return DocumentDeadline(KIND, name, host, deadline.seconds(hours), f"{time}Z")
