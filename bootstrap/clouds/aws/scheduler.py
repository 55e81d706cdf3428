"""The deadline on AWS: a one-time schedule of EventBridge Scheduler that stops an instance."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from railhead.documents.codec import decode
from railhead.documents.lazy import dataclass

from ...errors import Command, Hint, RailheadError
from ..base import MISSING, Deadline, refuse_hours, unless_refused
from ..machines import Place
from .client import AwsClient, connect
from .ec2 import Instance
from .kinds import ID, PREFIX
from .simulation import Right, right_to

KIND = "scheduled-stop"
SOURCE = "EventBridge Scheduler GetSchedule"
TARGET = re.compile(r"arn:[a-z-]+:scheduler:::aws-sdk:ec2:(stop|terminate)Instances")
# UpdateSchedule replaces the whole schedule: these fields keep the values of the stack.
KEPT = {"Name", "GroupName", "Description", "Target", "FlexibleTimeWindow"}
KEPT |= {"ActionAfterCompletion", "KmsKeyArn"}

Instances = Mapping[str, Instance]


@dataclass(frozen=True)
class ScheduleTarget:
    """What a schedule calls, the JSON text of the arguments, and the role whose rights it uses."""

    Arn: str = ""
    Input: str = ""
    RoleArn: str = ""


@dataclass(frozen=True)
class Schedule:
    """A schedule; the fields have the names of EventBridge Scheduler."""

    ScheduleExpression: str = ""
    ScheduleExpressionTimezone: str = ""
    State: str = ""
    Target: ScheduleTarget = ScheduleTarget()

    @property
    def at(self) -> datetime | None:
        """The time of a one-time schedule; None for another kind of schedule."""
        match = re.fullmatch(r"at\((.+)\)", self.ScheduleExpression)
        if not match:
            return None
        zone = ZoneInfo(self.ScheduleExpressionTimezone or "UTC")
        return datetime.fromisoformat(match[1]).replace(tzinfo=zone).astimezone(timezone.utc)

    @property
    def action(self) -> tuple[str, tuple[str, ...]]:
        """What it does, `stop` or `terminate`, and to which instances; otherwise ("", ())."""
        verb = TARGET.fullmatch(self.Target.Arn)
        try:
            ids = decode(tuple[str, ...], json.loads(self.Target.Input), path="InstanceIds")
        except ValueError:
            return "", ()
        return (verb[1], ids) if verb else ("", ())


def read(
    client: AwsClient,
    name: str,
    instance_id: str,
    instances: Instances,
    *,
    region: str = "",
    cluster_id: str | None = None,
) -> Deadline:
    """The schedule of an instance, as it is now; MISSING when there is none or when it cannot
    succeed. `instances` are the cluster's instances that exist, by id, as EC2 has them.
    `cluster_id`: what the instance's tag must be for the schedule's role; None: not checked."""
    values = _get(client, name)
    if values is None:
        reason = f"there is no schedule {name}"
        return Deadline(KIND, None, MISSING, SOURCE, reason, exists=False)
    schedule = decode(Schedule, values, what=f"the schedule {name}", error=RailheadError)
    at, (verb, ids) = schedule.at, schedule.action
    target = f"{verb}s {', '.join(ids)}" if ids else ""
    if reason := _why_not(schedule, instance_id, instances):
        return Deadline(KIND, at, MISSING, SOURCE, reason, target)
    right = _right(client, schedule, instances[instance_id], region, cluster_id)
    if right.why_not:  # an `up` corrects its role, and the schedule if necessary
        return Deadline(KIND, at, MISSING, SOURCE, right.why_not, target, exists=False)
    past = at is not None and at <= datetime.now(timezone.utc)
    return Deadline(KIND, at, "past" if past else "armed", SOURCE, right.unknown, target)


def set_deadline(client: AwsClient, names: Collection[str], hours: float) -> None:
    """Move the schedules to this many hours from now; their targets and role do not change.

    Raises:
        UsageError: the hours are out of range.
        RailheadError: a schedule does not exist; the others were moved.
    """
    refuse_hours(hours)
    end = datetime.now(timezone.utc) + timedelta(hours=hours)
    missing = [name for name in sorted(names) if not _move(client, name, end)]
    if missing:
        raise RailheadError(
            f"the schedule {', '.join(missing)}, which stops a machine by itself, is {MISSING}",
            hint=Hint(Command("up", refresh=True), "   # recreates it"),
        )


def name_of(cluster: str, instance: str) -> str:
    """The name that a stack gives to the schedule of an instance; stacks/aws/schedule.py has it."""
    return f"{PREFIX}{cluster}-{instance}"


def remove(
    place: Place, cluster: str, instances: Collection[str], client: AwsClient | None = None
) -> list[str]:
    """Remove the schedules of these instances; the names of those that existed. Refused: AWS does
    not remove one."""
    client = client or connect(place.region)
    names = [name_of(cluster, instance) for instance in sorted(instances)]
    there = [name for name in names if _get(client, name) is not None]
    for name in there:
        client("scheduler", "delete_schedule", Name=name)
    return there


def _move(client: AwsClient, name: str, end: datetime) -> bool:
    """Move one schedule; False if there is none."""
    schedule = _get(client, name)
    if schedule is None:
        return False
    client(
        "scheduler",
        "update_schedule",
        **{key: schedule[key] for key in KEPT & schedule.keys()},
        ScheduleExpression=f"at({end:%Y-%m-%dT%H:%M:%S})",
        ScheduleExpressionTimezone="UTC",
        State="ENABLED",
    )
    return True


def _get(client: AwsClient, name: str) -> Any:
    """A schedule, as AWS has it, by the deadline's id, `name` or `group/name`; None if there is
    none."""
    group, _, last = name.rpartition("/")
    named = {"Name": last, "GroupName": group or "default"}
    read = partial(client, "scheduler", "get_schedule", **named)
    return unless_refused(("ResourceNotFoundException",), read)


def _right(
    client: AwsClient, schedule: Schedule, instance: Instance, region: str, cluster_id: str | None
) -> Right:
    """Whether the role of the schedule may stop an instance. Not checked without an id: a stack of
    a version without ids has another role."""
    if not cluster_id:
        return Right()
    if instance.tags.get(ID) != cluster_id:
        return Right(f"the instance lost its tag {ID}={cluster_id}, so the schedule's role may not")
    role, (verb, _) = schedule.Target.RoleArn, schedule.action
    return right_to(client, role, verb, instance.InstanceId, region, cluster_id)


def _why_not(schedule: Schedule, instance_id: str, instances: Instances) -> str:
    """Why a schedule cannot stop the instance; empty when it can."""
    verb, ids = schedule.action
    if schedule.State == "DISABLED":
        return "the schedule is disabled"
    if schedule.at is None:
        return f"its time is {schedule.ScheduleExpression!r}"
    if instance_id not in ids:
        return f"the schedule does not stop {instance_id}"
    # EC2 refuses the whole call for one id that does not exist.
    if gone := [instance for instance in ids if instance not in instances]:
        return f"it also names {', '.join(gone)}, which no longer exists: EC2 refuses the call"
    if verb == "stop" and instances[instance_id].is_spot:
        return f"it stops {instance_id}, and EC2 can terminate a one-time spot machine, not stop it"
    return ""
