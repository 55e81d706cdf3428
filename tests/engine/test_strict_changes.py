"""Changes of a stack on AWS that EC2 and its provider treat less kindly than one would think: the
real engine and the real `fab`, over moto with EC2's refusals. One of them in each run."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest
from draws import drawn
from engine.aws import OnAws

from campaigns.kills import status

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
UP = ("up", "--yes", "--stack", "g4dn")
HOURS = 20.0


def test_a_change_that_the_cloud_treats_in_its_own_way(aws: OnAws) -> None:
    aws.stack.config(count=2, bucket=False)
    drawn(CHANGES)(aws)


def a_renamed_stack_keeps_the_deadlines_that_were_moved(aws: OnAws) -> None:
    """The provider would send the time of the state with the other fields."""
    aws.stack.up().ended(0)
    move(aws)
    aws.stack.config(name="other", deadline_hours=5).up().ended(0)
    assert len(aws.instances()) == 2 and moved(aws)
    aws.stack.up("--expect-no-changes").ended(0)


def a_deadline_without_the_right_is_missing_and_fab_up_makes_it_right(aws: OnAws) -> None:
    aws.stack.up().ended(0)
    move(aws)
    iam = aws.cloud.client("iam")
    (role,) = (one["RoleName"] for one in iam.list_roles()["Roles"])
    (policy,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
    iam.delete_role_policy(RoleName=role, PolicyName=policy)
    text = status(aws)
    assert text.count("scheduled-stop: MISSING") == 2 and "implicitDeny" in text
    aws.stack.fab(*UP).ended(0)
    (policy,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
    assert moved(aws)

    iam.delete_role_policy(RoleName=role, PolicyName=policy)
    iam.delete_role(RoleName=role)
    aws.stack.fab(*UP).ended(0)
    (now,) = (one["Arn"] for one in iam.list_roles()["Roles"])
    assert {one["Target"]["RoleArn"] for one in aws.schedules()} == {now} and moved(aws)
    assert status(aws).count("scheduled-stop: armed") == 2


def another_type_leaves_stopped_machines_stopped(aws: OnAws) -> None:
    """Also where EC2 refuses it: another family replaces them."""
    aws.stack.up().ended(0)
    before = aws.running()
    aws.stack.fab("stop", "--stack", "g4dn").ended(0)
    aws.stack.config(machine_type="g4dn.2xlarge")
    aws.stack.fab(*UP).ended(0, "stopping g4dn-1, g4dn-2, which did not run before")
    assert aws.existing("stopped") == before and types(aws) == {"g4dn.2xlarge"}
    aws.stack.config(machine_type="g5.xlarge").up().ended(0)
    assert not {*before} & {*aws.running()} and types(aws) == {"g5.xlarge"}


def machines_are_spot_and_are_not(aws: OnAws) -> None:
    aws.stack.config(spot=True).up().ended(0)
    spot = aws.running()
    aws.stack.config(machine_type="g4dn.2xlarge").up().ended(0)
    larger = aws.running()
    aws.stack.config(spot=False).up().ended(0)
    now = aws.running()
    assert len(spot) == len(larger) == len(now) == 2 and len({*spot, *larger, *now}) == 6
    verbs = {one["Target"]["Arn"].rpartition(":")[2] for one in aws.schedules()}
    assert verbs == {"stopInstances"} and len(aws.schedules()) == 2
    assert status(aws).count("scheduled-stop: armed") == 2


def a_preview_says_what_the_cloud_would_do(aws: OnAws) -> None:
    """Only of what is changed, and of machines that are stopped."""
    aws.stack.config(disk_gb=120).up().ended(0)
    first, second = aws.running()
    smaller = aws.stack.config(disk_gb=90).preview().ended(1, "EBS makes none smaller")
    assert "next: pulumi config set disk_gb 120 --stack g4dn" in smaller.text
    aws.stack.config(disk_gb=120).preview("--expect-no-changes").ended(0)
    aws.cloud.client("ec2").stop_instances(InstanceIds=[first])
    stopped = aws.existing("stopped")[first]
    larger = aws.stack.config(machine_type="g4dn.2xlarge").preview().ended(0)
    named = set(re.findall(r"cluster-host-(\d) is stopped: .* fab up --stack g4dn", larger.text))
    assert named == {stopped.rpartition("-")[2]}
    assert second in aws.running()


CHANGES: list[Callable[[OnAws], None]] = [
    a_renamed_stack_keeps_the_deadlines_that_were_moved,
    a_deadline_without_the_right_is_missing_and_fab_up_makes_it_right,
    another_type_leaves_stopped_machines_stopped,
    machines_are_spot_and_are_not,
    a_preview_says_what_the_cloud_would_do,
]


def move(aws: OnAws) -> None:
    """As `fab extend` moves the schedules."""
    at = datetime.now(timezone.utc) + timedelta(hours=HOURS)
    for one in aws.schedules():
        kept = {key: one[key] for key in ("Name", "Target", "FlexibleTimeWindow", "Description")}
        aws.cloud.client("scheduler").update_schedule(
            **kept, ScheduleExpression=f"at({at:%Y-%m-%dT%H:%M:%S})"
        )


def moved(aws: OnAws) -> bool:
    """Whether each machine's schedule is about HOURS from now."""
    wanted = datetime.now(timezone.utc) + timedelta(hours=HOURS)
    found = [datetime.fromisoformat(one["ScheduleExpression"][3:-1]) for one in aws.schedules()]
    apart = [abs(wanted - one.replace(tzinfo=timezone.utc)) for one in found]
    return len(apart) == 2 and max(apart) < timedelta(minutes=15)


def types(aws: OnAws) -> set[str]:
    return {one["InstanceType"] for one in aws.instances()}
