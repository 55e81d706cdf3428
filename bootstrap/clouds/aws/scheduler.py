"""The deadline on AWS: a one-time schedule of EventBridge Scheduler that stops the instances."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from bootstrap.clouds.aws.client import AwsClient
from bootstrap.clouds.base import MISSING, Deadline, Refused
from bootstrap.errors import RailheadError, UsageError

KIND = "scheduled-stop"
SOURCE = "EventBridge Scheduler GetSchedule"
MOST_HOURS = 168
# UpdateSchedule replaces the whole schedule: these fields keep the values of the stack.
KEPT = {"Name", "GroupName", "Description", "Target", "FlexibleTimeWindow"}
KEPT |= {"ActionAfterCompletion", "KmsKeyArn"}


def read(client: AwsClient, name: str, ids: Collection[str]) -> Deadline:
    """The schedule as it is now; MISSING when there is none or it does not stop these instances."""
    try:
        schedule = client("scheduler", "get_schedule", **_named(name))
    except Refused as refused:
        if refused.error_code != "ResourceNotFoundException":
            raise
        return Deadline(KIND, None, MISSING, SOURCE, f"there is no schedule {name}")
    at = _time_of(schedule)
    if reason := _why_ineffective(schedule, at, ids):
        return Deadline(KIND, at, MISSING, SOURCE, reason)
    past = at is not None and at <= datetime.now(timezone.utc)
    return Deadline(KIND, at, "past" if past else "armed", SOURCE)


def set_deadline(client: AwsClient, name: str, hours: float) -> None:
    """Move the schedule to this many hours from now; its target and role do not change.

    Raises:
        UsageError: the hours are out of range.
        RailheadError: the schedule does not exist.
    """
    if not 0 < hours <= MOST_HOURS:
        raise UsageError(f"{hours:g} hours: a deadline is more than 0 and at most {MOST_HOURS} h")
    try:
        schedule = client("scheduler", "get_schedule", **_named(name))
    except Refused as refused:
        if refused.error_code != "ResourceNotFoundException":
            raise
        raise RailheadError(
            f"the schedule {name}, which stops the machines by itself, is {MISSING}",
            hint="pulumi refresh --yes && pulumi up   # makes it anew",
        ) from None
    at = datetime.now(timezone.utc) + timedelta(hours=hours)
    client(
        "scheduler",
        "update_schedule",
        **{key: schedule[key] for key in KEPT & schedule.keys()},
        ScheduleExpression=f"at({at:%Y-%m-%dT%H:%M:%S})",
        ScheduleExpressionTimezone="UTC",
        State="ENABLED",
    )


def _named(name: str) -> dict[str, str]:
    """A schedule's name and group, from the deadline's id: `name` or `group/name`."""
    group, _, last = name.rpartition("/")
    return {"Name": last, "GroupName": group or "default"}


def _time_of(schedule: Mapping[str, Any]) -> datetime | None:
    """The time of a one-time schedule; None for another kind of schedule."""
    found = re.fullmatch(r"at\((.+)\)", schedule.get("ScheduleExpression", ""))
    if not found:
        return None
    zone = ZoneInfo(schedule.get("ScheduleExpressionTimezone") or "UTC")
    return datetime.fromisoformat(found[1]).replace(tzinfo=zone).astimezone(timezone.utc)


def _why_ineffective(schedule: Mapping[str, Any], at: datetime | None, ids: Collection[str]) -> str:
    """Why a schedule does not stop the instances; empty when it does."""
    if schedule.get("State") == "DISABLED":
        return "the schedule is disabled"
    if at is None:
        return f"its time is {schedule.get('ScheduleExpression')!r}"
    try:
        stops = json.loads(schedule["Target"]["Input"])["InstanceIds"]
    except (ValueError, KeyError, TypeError):
        stops = []
    missed = [i for i in ids if i not in stops]
    return f"the schedule does not stop {', '.join(missed)}" if missed else ""
