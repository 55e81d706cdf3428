"""The one-time schedule of EventBridge Scheduler that stops a cluster's machines by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from bootstrap.clouds.aws.client import Ask
from bootstrap.clouds.base import MISSING, Deadline, Refused
from bootstrap.errors import RailheadError, UsageError

KIND = "scheduled-stop"
SAID_BY = "EventBridge Scheduler GetSchedule"
MOST_HOURS = 168
# UpdateSchedule replaces the whole schedule: this is what stays as the stack made it.
KEPT = {"Name", "GroupName", "Description", "Target", "FlexibleTimeWindow"}
KEPT |= {"ActionAfterCompletion", "KmsKeyArn"}


def read(ask: Ask, name: str, ids: Collection[str]) -> Deadline:
    """The schedule as it is now; MISSING when it is not there or will not stop these machines."""
    try:
        schedule = ask("scheduler", "get_schedule", **_named(name))
    except Refused as refused:
        if refused.error_code != "ResourceNotFoundException":
            raise
        return Deadline(KIND, None, MISSING, SAID_BY, f"there is no schedule {name}")
    at = _time_of(schedule)
    if why := _why_useless(schedule, at, ids):
        return Deadline(KIND, at, MISSING, SAID_BY, why)
    past = at is not None and at <= datetime.now(timezone.utc)
    return Deadline(KIND, at, "past" if past else "armed", SAID_BY)


def set_deadline(ask: Ask, name: str, hours: float) -> None:
    """Move the schedule's time; its target and role stay as the stack made them.

    Raises:
        UsageError: the hours are out of range.
        RailheadError: the schedule is not there any more.
    """
    if not 0 < hours <= MOST_HOURS:
        raise UsageError(f"{hours:g} hours: a deadline is more than 0 and at most {MOST_HOURS} h")
    try:
        schedule = ask("scheduler", "get_schedule", **_named(name))
    except Refused as refused:
        if refused.error_code != "ResourceNotFoundException":
            raise
        raise RailheadError(
            f"the schedule {name}, which stops the machines by itself, is {MISSING}",
            hint="pulumi refresh --yes && pulumi up   # makes it anew",
        ) from None
    at = datetime.now(timezone.utc) + timedelta(hours=hours)
    ask(
        "scheduler",
        "update_schedule",
        **{key: schedule[key] for key in KEPT & schedule.keys()},
        ScheduleExpression=f"at({at:%Y-%m-%dT%H:%M:%S})",
        ScheduleExpressionTimezone="UTC",
        State="ENABLED",
    )


def _named(name: str) -> dict[str, str]:
    """The id of a deadline is its schedule's name, or group/name."""
    group, _, last = name.rpartition("/")
    return {"Name": last, "GroupName": group or "default"}


def _time_of(schedule: Mapping[str, Any]) -> datetime | None:
    """When a one-time schedule fires; None for one of another kind."""
    found = re.fullmatch(r"at\((.+)\)", schedule.get("ScheduleExpression", ""))
    if not found:
        return None
    zone = ZoneInfo(schedule.get("ScheduleExpressionTimezone") or "UTC")
    return datetime.fromisoformat(found[1]).replace(tzinfo=zone).astimezone(timezone.utc)


def _why_useless(schedule: Mapping[str, Any], at: datetime | None, ids: Collection[str]) -> str:
    """Why a schedule that is there will not stop the machines; empty when it will."""
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
