"""The roles, their rights and the deadlines of machines on AWS."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from stacks.aws.schedule import REPLACING
from tests.stacks.aws.world import INSTANCE, KEY, made, policy
from tests.stacks.mocks import CLUSTER_ID

SCHEDULE = "aws:scheduler/schedule:Schedule"
ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"


def test_the_hosts_role_reads_this_bucket_and_writes_only_runs() -> None:
    cluster = made()
    (mine,) = [r for r in cluster.every(ROLE_POLICY) if r.name == "cluster-bucket"]
    arn = "arn:mock:cluster-results"
    may = [
        (action, *statement["Resource"])
        for statement in policy(mine.inputs["policy"])
        for action in statement["Action"]
        if statement["Effect"] == "Allow"
    ]
    # A host that could write elsewhere could change the wheels that later machines install.
    assert may == [
        ("s3:ListBucket", arn),
        ("s3:GetObject", f"{arn}/*"),
        ("s3:PutObject", f"{arn}/runs/*"),
        ("s3:PutObjectTagging", f"{arn}/runs/*"),
        ("s3:AbortMultipartUpload", f"{arn}/runs/*"),
    ]
    assert not {kind for kind in cluster.kinds if "ttachment" in kind}, "no managed policies"
    none = made(bucket=False)
    assert not [r for r in none.every(ROLE_POLICY) if r.name != "cluster-deadline"]
    assert not any("iamInstanceProfile" in host.inputs for host in none.every(INSTANCE))


def test_a_host_has_its_rights_before_it_boots() -> None:
    """Else the first upload of a short run is refused."""
    cluster = made(data_buckets="s3://images")
    needed = {r.urn for r in cluster.every(ROLE_POLICY) if r.name != "cluster-deadline"}
    assert len(needed) == 2
    assert needed <= set(cluster.one("aws:iam/instanceProfile:InstanceProfile").depends_on)


def allowed(resource: Any) -> list[tuple[Any, ...]]:
    """(action, resources, prefixes that may be listed) of a role's policy."""
    return [
        (
            statement["Action"],
            statement["Resource"],
            statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix"),
        )
        for statement in policy(resource.inputs["policy"])
        if statement["Effect"] == "Allow"
    ]


@pytest.mark.parametrize("bucket", [True, False])
def test_the_hosts_read_data_below_the_named_prefixes_only(bucket: bool) -> None:
    cluster = made(bucket=bucket, data_buckets="s3://images/cassava/v1/, s3://all")
    (data,) = [r for r in cluster.every(ROLE_POLICY) if r.name == "cluster-data"]
    images, everything = "arn:aws:s3:::images", "arn:aws:s3:::all"
    assert allowed(data) == [
        (["s3:ListBucket"], [images], ["cassava/v1/*"]),
        (["s3:GetObject"], [f"{images}/cassava/v1", f"{images}/cassava/v1/*"], None),
        (["s3:ListBucket"], [everything], None),
        (["s3:GetObject"], [f"{everything}/*"], None),
    ]
    names = {resource.name for resource in cluster.every(ROLE_POLICY)}
    assert ("cluster-bucket" in names) == bucket
    profile = cluster.one("aws:iam/instanceProfile:InstanceProfile")
    assert data.urn in profile.depends_on, "a host that boots before its rights reads nothing"
    assert all("iamInstanceProfile" in host.inputs for host in cluster.every(INSTANCE))


def test_ten_long_prefixes_fit_into_a_role() -> None:
    prefixes = ",".join(f"s3://a-bucket-of-data-{n}/{'folder/' * 12}{n}" for n in range(10))
    (data,) = [
        p for p in made(data_buckets=prefixes).every(ROLE_POLICY) if p.name == "cluster-data"
    ]
    assert len(data.inputs["policy"]) < 10_240, "AWS counts all policies of a role together"


@pytest.mark.parametrize(("spot", "verb"), [(False, "stop"), (True, "terminate")])
def test_the_deadline_stops_exactly_these_machines_once(spot: bool, verb: str) -> None:
    cluster = made(spot=spot, count=3, deadline_hours=5)
    schedules = {resource.name: resource for resource in cluster.every(SCHEDULE)}
    assert sorted(schedules) == ["cluster-host-1", "cluster-host-2", "cluster-host-3"], (
        "a fixed name for each number"
    )
    for number, schedule in schedules.items():
        name = number.replace("cluster-host", "c")
        assert schedule.inputs["name"] == f"railhead-c-i-{name}"
        target = schedule.inputs["target"]
        assert target["arn"] == f"arn:aws:scheduler:::aws-sdk:ec2:{verb}Instances"
        assert json.loads(target["input"]) == {"InstanceIds": [f"i-{name}"]}
        ends = datetime.fromisoformat(schedule.inputs["scheduleExpression"][3:-1])
        remaining = ends.replace(tzinfo=timezone.utc) - datetime.now(timezone.utc)
        assert timedelta(hours=4.99) < remaining < timedelta(hours=5.01)
        assert schedule.inputs["scheduleExpressionTimezone"] == "UTC"
        assert schedule.inputs["flexibleTimeWindow"] == {"mode": "OFF"}
        assert schedule.inputs["actionAfterCompletion"] == "NONE", "a past deadline is not missing"
        kept = {"name", *schedule.ignore_changes, *REPLACING}
        assert {*schedule.replace_on_changes} == {*REPLACING}
        assert kept == {*schedule.inputs}, "an update would send the time of the state"
        assert "scheduleExpression" in schedule.ignore_changes, "an `up` must not move it"
    (rights,) = [r for r in cluster.every(ROLE_POLICY) if r.name == "cluster-deadline"]
    (statement,) = policy(rights.inputs["policy"])
    assert statement["Action"] == ["ec2:StopInstances", "ec2:TerminateInstances"]
    assert statement["Resource"] == ["arn:aws:ec2:us-east-1:123456789012:instance/*"]
    assert statement["Condition"] == {"StringEquals": {"ec2:ResourceTag/railhead:id": CLUSTER_ID}}
    for host in cluster.every(INSTANCE):
        assert host.inputs["tags"]["railhead:id"] == CLUSTER_ID


def test_a_schedule_waits_for_its_own_instance_and_no_other() -> None:
    """And what it needs exists before the first machine: nothing of it can fail later."""
    cluster = made(count=3)
    hosts = {resource.name: resource for resource in cluster.every(INSTANCE)}
    (rights,) = [r.urn for r in cluster.every(ROLE_POLICY) if r.name == "cluster-deadline"]
    assert all(rights in host.depends_on for host in hosts.values())
    for schedule in cluster.every(SCHEDULE):
        waits = {r.name for r in hosts.values() if r.urn in schedule.depends_on}
        assert waits == {schedule.name}
        assert rights in schedule.depends_on


def test_only_the_scheduler_of_this_account_takes_the_deadlines_role() -> None:
    roles = {resource.name: resource for resource in made().every("aws:iam/role:Role")}
    (who,) = policy(roles["cluster-deadline-role"].inputs["assumeRolePolicy"])
    assert who["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert who["Condition"]["StringEquals"] == {
        "aws:SourceAccount": "123456789012",
        "aws:SourceArn": "arn:aws:scheduler:us-east-1:123456789012:schedule-group/default",
    }
    (host,) = policy(roles["cluster-role"].inputs["assumeRolePolicy"])
    assert host["Principal"] == {"Service": "ec2.amazonaws.com"}


def test_the_key_is_the_operators_without_its_comment() -> None:
    assert made().one("aws:ec2/keyPair:KeyPair").inputs["publicKey"] == KEY
