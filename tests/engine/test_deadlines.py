"""Every machine of a stack has a deadline of its own, also after a broken `up`: the real engine,
moto, and a provider whose instances take a while to run."""

from __future__ import annotations

import json
import shutil
from base64 import b64decode
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from draws import drawn
from engine.aws import INSTANCE, OnAws
from places import ROOT

from stacks.timer.deadline import install_script

SCHEDULE = "aws:scheduler/schedule:Schedule"
NO_ROOM = ("InsufficientInstanceCapacity", "We currently do not have sufficient capacity")
HOURS = 5


@pytest.fixture
def aws(aws: OnAws) -> OnAws:
    aws.stack.config(count=3, deadline_hours=HOURS, bucket=False)
    return aws


def armed(aws: OnAws) -> set[str]:
    """The running instances that have a schedule of their own about HOURS from now."""
    found = set()
    for one in aws.schedules():
        (stops,) = json.loads(one["Target"]["Input"])["InstanceIds"]
        at = datetime.fromisoformat(one["ScheduleExpression"][3:-1]).replace(tzinfo=timezone.utc)
        left = at - datetime.now(timezone.utc)
        assert timedelta(hours=HOURS - 0.1) < left <= timedelta(hours=HOURS)
        assert one["Name"].endswith(f"-{stops}")
        found.add(stops)
    return found


def with_timer(aws: OnAws) -> set[str]:
    """The running instances whose user data, as EC2 has it, installs the timer."""
    found = set()
    for one in aws.instances("running"):
        query = {"InstanceId": one["InstanceId"], "Attribute": "userData"}
        user_data = aws.cloud.client("ec2").describe_instance_attribute(**query)["UserData"]
        config = json.loads(b64decode(user_data["Value"]).decode().removeprefix("#cloud-config\n"))
        if config["bootcmd"] == [["sh", "-c", install_script(HOURS, 30)]]:
            found.add(one["InstanceId"])
    return found


def running(aws: OnAws) -> set[str]:
    return {one["InstanceId"] for one in aws.instances("running")}


def test_capacity_refused_leaves_no_machine_without_a_deadline(aws: OnAws) -> None:
    """Pulumi starts no step after a refused one: an instance that was still coming up has no
    schedule then, but its timer. A machine that runs at once has a schedule, too."""
    refused, seconds = drawn([(number, slow) for number in (1, 2, 3) for slow in (0.0, 3.0)])
    aws.provider.slow_instance = 0, seconds
    aws.provider.fail(INSTANCE, refused, *NO_ROOM)
    aws.stack.up().ended(1, NO_ROOM[0])
    made = running(aws)
    assert len(made) == 2 or (len(made) < 3 and refused < 3)
    assert with_timer(aws) == made
    assert armed(aws) <= made
    # `up` again makes what is missing, and every machine has both.
    aws.provider.slow_instance = 0, 0
    aws.stack.up().ended(0)
    assert made < running(aws) == armed(aws) == with_timer(aws) and len(running(aws)) == 3
    assert "after 30 minutes without use" in aws.stack.output()["idle"]


def test_a_schedule_is_made_while_another_machine_is_still_coming_up(aws: OnAws) -> None:
    """One machine is slow: the schedules of the others do not wait for it."""
    aws.provider.slow_instance = 1, 8.0
    aws.stack.up().ended(0)
    made = [one for one in aws.provider.finished if one in (INSTANCE, SCHEDULE)]
    assert sorted(made[:4]) == [INSTANCE, INSTANCE, SCHEDULE, SCHEDULE], made
    assert made[4:] == [INSTANCE, SCHEDULE], made


def test_spot_machines_that_were_taken_away_come_back_with_a_new_deadline(aws: OnAws) -> None:
    aws.stack.config(spot=True).up().ended(0)
    first, old = running(aws), {one["Name"] for one in aws.schedules()}
    (taken, *_) = sorted(first)
    scheduler = aws.cloud.client("scheduler")
    for one in aws.schedules():  # as hours later: all are past
        kept = {key: one[key] for key in ("Name", "Target", "FlexibleTimeWindow", "Description")}
        scheduler.update_schedule(**kept, ScheduleExpression="at(2026-01-01T00:00:00)")
    aws.cloud.client("ec2").terminate_instances(InstanceIds=[taken])
    aws.stack.refresh().ended(0)
    aws.stack.up().ended(0)
    (new,) = running(aws) - first
    schedules: dict[str, Any] = {one["Name"]: one for one in aws.schedules()}
    (name,) = schedules.keys() - old
    assert name.endswith(new) and len(schedules) == 3 and not any(taken in n for n in schedules)
    at = datetime.fromisoformat(schedules[name]["ScheduleExpression"][3:-1])
    left = at.replace(tzinfo=timezone.utc) - datetime.now(timezone.utc)
    assert timedelta(hours=HOURS - 0.1) < left <= timedelta(hours=HOURS)
    assert schedules[name]["Target"]["Arn"].endswith(":terminateInstances")
    deadlines = {one["id"]: one["at"] for one in aws.stack.output()["cluster"]["deadlines"]}
    assert deadlines[name] == f"{at:%Y-%m-%dT%H:%M:%S}Z"
    assert sorted(deadlines.values())[0] == "2026-01-01T00:00:00Z", "the others are not moved"


# A stack as an older version made it: one schedule that stops all machines.
ONE_SCHEDULE = """
import json
from types import SimpleNamespace

import pulumi
from pulumi_aws import scheduler
from stacks.aws import schedule

machines = []


def one_for_all(config, number, machine, stopper, opts):
    machines.append(machine)
    name = f"railhead-{config.name}-stop-0a1b2c"
    when = schedule._expression(config.deadline_hours)
    if number == config.count:
        ids = pulumi.Output.all(*[one.id for one in machines])
        scheduler.Schedule(
            name,
            name=name,
            description=f"The deadline of the cluster {config.name}",
            schedule_expression=when,
            schedule_expression_timezone="UTC",
            flexible_time_window=scheduler.ScheduleFlexibleTimeWindowArgs(mode="OFF"),
            action_after_completion="NONE",
            target=scheduler.ScheduleTargetArgs(
                arn="arn:aws:scheduler:::aws-sdk:ec2:stopInstances",
                role_arn=stopper.role.arn,
                input=ids.apply(lambda ids: json.dumps({"InstanceIds": ids})),
            ),
            opts=opts,
        )
    return SimpleNamespace(name=name, schedule_expression=when)


schedule.schedule = one_for_all
import stacks.__main__
"""


def test_one_schedule_of_an_older_version_goes_when_each_machine_has_its_own(aws: OnAws) -> None:
    """In this order: at no time has a machine none, also where the `up` breaks off."""
    program = aws.stack.folder / "stacks"
    program.unlink()
    program.mkdir()
    (program / "__main__.py").write_text(ONE_SCHEDULE)
    aws.stack.up().ended(0)
    (old,) = aws.schedules()
    assert set(json.loads(old["Target"]["Input"])["InstanceIds"]) == running(aws)
    shutil.rmtree(program)
    program.symlink_to(ROOT / "stacks")

    aws.provider.fail(SCHEDULE, aws.provider.created[SCHEDULE] + 2, "ThrottlingException", "slow")
    aws.stack.up().ended(1, "ThrottlingException")
    assert old["Name"] in {one["Name"] for one in aws.schedules()}, "it holds until all have one"

    at_removal: list[set[str]] = []

    def watch(moment: str) -> None:
        if moment == f"before delete {SCHEDULE}":
            own = [one for one in aws.schedules() if one["Name"] != old["Name"]]
            at_removal.append({json.loads(o["Target"]["Input"])["InstanceIds"][0] for o in own})

    before = running(aws)
    aws.provider.watch = watch
    done = aws.stack.up().ended(0)
    assert at_removal == [running(aws)] == [armed(aws)] == [before]
    assert not [step for step in done.steps if step.type == INSTANCE and "replace" in step.op]
    aws.stack.up("--expect-no-changes").ended(0)
