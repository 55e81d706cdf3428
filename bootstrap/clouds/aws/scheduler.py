"""The deadline on AWS: a one-time schedule of EventBridge Scheduler that stops an instance."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from bootstrap.clouds.aws.client import AwsClient, connect
from bootstrap.clouds.base import MISSING, Deadline, Refused
from bootstrap.clouds.machines import Place
from bootstrap.errors import Command, Hint, RailheadError, UsageError

KIND = "scheduled-stop"
SOURCE = "EventBridge Scheduler GetSchedule"
TARGET = re.compile(r"arn:[a-z-]+:scheduler:::aws-sdk:ec2:(stop|terminate)Instances")
ID_TAG = "railhead:id"
MOST_HOURS = 168
# UpdateSchedule replaces the whole schedule: these fields keep the values of the stack.
KEPT = {"Name", "GroupName", "Description", "Target", "FlexibleTimeWindow"}
KEPT |= {"ActionAfterCompletion", "KmsKeyArn"}

Instances = Mapping[str, Mapping[str, Any]]


def read(
    client: AwsClient, name: str, own: str, instances: Instances, cluster_id: str | None = None
) -> Deadline:
    """The schedule of the instance `own`, as it is now; MISSING when there is none or when it
    cannot succeed. `instances` are the cluster's instances that exist, by id, as EC2 has them.
    `cluster_id`: what the instance's tag must be for the schedule's role; None in older stacks."""
    schedule = _get(client, name)
    if schedule is None:
        reason = f"there is no schedule {name}"
        return Deadline(KIND, None, MISSING, SOURCE, reason, exists=False)
    at, (verb, ids) = _time_of(schedule), _target_of(schedule)
    target = f"{verb}s {', '.join(ids)}" if ids else ""
    reason = _why_not(schedule, at, own, instances) or _no_right(instances[own], cluster_id)
    if reason:
        return Deadline(KIND, at, MISSING, SOURCE, reason, target)
    past = at is not None and at <= datetime.now(timezone.utc)
    return Deadline(KIND, at, "past" if past else "armed", SOURCE, target=target)


def set_deadline(client: AwsClient, names: Collection[str], hours: float) -> None:
    """Move the schedules to this many hours from now; their targets and role do not change.

    Raises:
        UsageError: the hours are out of range.
        RailheadError: a schedule does not exist; the others were moved.
    """
    if not 0 < hours <= MOST_HOURS:
        raise UsageError(f"{hours:g} hours: a deadline is more than 0 and at most {MOST_HOURS} h")
    at = datetime.now(timezone.utc) + timedelta(hours=hours)
    missing = [name for name in sorted(names) if not _move(client, name, at)]
    if missing:
        raise RailheadError(
            f"the schedule {', '.join(missing)}, which stops a machine by itself, is {MISSING}",
            hint=Hint(Command("up", refresh=True), "   # makes it anew"),
        )


def name_of(cluster: str, instance: str) -> str:
    """The name that a stack gives to the schedule of an instance; stacks/aws/schedule.py has it."""
    return f"railhead-{cluster}-{instance}"


def remove(
    place: Place, cluster: str, instances: Collection[str], client: AwsClient | None = None
) -> list[str]:
    """Remove the schedules of these instances; the names of those that there were.

    Raises:
        Refused: AWS does not remove one.
    """
    client = client or connect(place.region)
    names = [name_of(cluster, instance) for instance in sorted(instances)]
    there = [name for name in names if _get(client, name) is not None]
    for name in there:
        client("scheduler", "delete_schedule", Name=name)
    return there


def _move(client: AwsClient, name: str, at: datetime) -> bool:
    """Move one schedule; False where there is none."""
    schedule = _get(client, name)
    if schedule is None:
        return False
    client(
        "scheduler",
        "update_schedule",
        **{key: schedule[key] for key in KEPT & schedule.keys()},
        ScheduleExpression=f"at({at:%Y-%m-%dT%H:%M:%S})",
        ScheduleExpressionTimezone="UTC",
        State="ENABLED",
    )
    return True


def _get(client: AwsClient, name: str) -> Mapping[str, Any] | None:
    """A schedule by the deadline's id, `name` or `group/name`; None where there is none."""
    group, _, last = name.rpartition("/")
    try:
        found: Mapping[str, Any] = client(
            "scheduler", "get_schedule", Name=last, GroupName=group or "default"
        )
    except Refused as refused:
        if refused.error_code != "ResourceNotFoundException":
            raise
        return None
    return found


def _time_of(schedule: Mapping[str, Any]) -> datetime | None:
    """The time of a one-time schedule; None for another kind of schedule."""
    found = re.fullmatch(r"at\((.+)\)", schedule.get("ScheduleExpression", ""))
    if not found:
        return None
    zone = ZoneInfo(schedule.get("ScheduleExpressionTimezone") or "UTC")
    return datetime.fromisoformat(found[1]).replace(tzinfo=zone).astimezone(timezone.utc)


def _target_of(schedule: Mapping[str, Any]) -> tuple[str, list[str]]:
    """What a schedule does, `stop` or `terminate`, and to which instances; else ("", [])."""
    try:
        verb = TARGET.fullmatch(schedule["Target"]["Arn"])
        ids = [str(each) for each in json.loads(schedule["Target"]["Input"])["InstanceIds"]]
    except (ValueError, KeyError, TypeError):
        return "", []
    return (verb[1], ids) if verb else ("", [])


def _no_right(instance: Mapping[str, Any], cluster_id: str | None) -> str:
    """Why the role of the schedule may not stop an instance; empty when it may."""
    tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])}
    if cluster_id and tags.get(ID_TAG) != cluster_id:
        return f"the instance lost its tag {ID_TAG}={cluster_id}, so the schedule's role may not"
    return ""


def _why_not(
    schedule: Mapping[str, Any], at: datetime | None, own: str, instances: Instances
) -> str:
    """Why a schedule cannot stop the instance; empty when it can."""
    verb, ids = _target_of(schedule)
    if schedule.get("State") == "DISABLED":
        return "the schedule is disabled"
    if at is None:
        return f"its time is {schedule.get('ScheduleExpression')!r}"
    if own not in ids:
        return f"the schedule does not stop {own}"
    # EC2 refuses the whole call for one id that does not exist.
    if gone := [each for each in ids if each not in instances]:
        return f"it also names {', '.join(gone)}, which no longer exists: EC2 refuses the call"
    if verb == "stop" and instances[own].get("InstanceLifecycle") == "spot":
        return f"it stops {own}, and EC2 can end a one-time spot machine, not stop it"
    return ""
