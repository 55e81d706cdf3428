"""A `pulumi up` on AWS that breaks off: the real engine and the real `fab`, over moto."""

from __future__ import annotations

from typing import Any

import pytest
from draws import drawn
from engine.aws import INSTANCE, OnAws, check_deadlines, tags

from campaigns.kills import kill_up

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
CAPACITY = ("InsufficientInstanceCapacity", "We currently do not have sufficient capacity")
DESTROY = ("teardown", "--destroy", "--yes", "--stack", "g4dn")


def ids(machines: list[dict[str, Any]]) -> list[str]:
    return [one["InstanceId"] for one in machines]


def check_nothing_runs(aws: OnAws) -> None:
    assert not aws.instances()
    assert aws.stack.resources() == []


def test_an_up_without_capacity_is_named_and_ended(aws: OnAws) -> None:
    """The others take seconds until they run. The most frequent break: no output, no document."""
    aws.provider.slow_instance = (0, 2.0)
    aws.provider.fail(INSTANCE, drawn([1, 2, 3]), *CAPACITY, after=3)
    aws.stack.config(count=3)
    done = aws.stack.up().ended(1, "fab teardown --destroy --stack g4dn")
    assert "Other zones that offer it: us-east-1b, us-east-1c" in done.text
    assert "Other types with the same GPUs: g4dn.2xlarge" in done.text
    left = aws.instances()
    assert len(left) == 2
    check_deadlines(aws)
    assert not aws.schedules(), "Pulumi starts no step after a refused one"

    status = aws.stack.fab("status", "--stack", "g4dn")
    assert "Traceback" not in status.text
    for one in left:
        name = tags(one)["Name"]
        assert f"[{name}] running" in status.text, status.text
        assert f"[{name}] deadline scheduled-stop: MISSING" in status.text, status.text
        assert f"[{name}] deadline timer: not read: " in status.text, status.text
    assert "account 123456789012" in status.text and "broke off" in status.text
    assert "cost: 1.10 USD per hour" in status.text
    status.ended(1, "next: fab up --refresh --stack g4dn   # creates it")

    aws.stack.fab(*DESTROY).ended(0, "Receipt for stack g4dn")
    check_nothing_runs(aws)


def test_a_machine_that_a_killed_up_left_is_not_created_twice(aws: OnAws) -> None:
    aws.stack.config(bucket=False)
    kill_up(aws, f"after create {INSTANCE}")
    aws.stack.run("cancel", "--yes", "--stack", "g4dn")
    left = ids(aws.instances())
    assert left and len(left) <= 2
    aws.stack.up().ended(1, "exists already, in no state of Pulumi", "next: fab up --stack g4dn")
    assert {*left} <= {*ids(aws.instances())} and len(aws.instances()) <= 2
    aws.stack.fab("up", "--yes", "--stack", "g4dn").ended(0, "a killed `pulumi up` left g4dn-")
    assert len(aws.instances()) == 2 and not {*left} & {*ids(aws.instances())}
    check_deadlines(aws)
    assert {one["Name"].rpartition("-i-")[2] for one in aws.schedules()} == {
        one.removeprefix("i-") for one in ids(aws.instances())
    }, "those of the machines that are gone went with them"


def test_a_destroy_beside_another_up_removes_nothing(aws: OnAws) -> None:
    aws.stack.config(bucket=False)
    refused = list[str]()

    def destroy(moment: str) -> None:
        if moment == f"after create {INSTANCE}" and not refused:
            refused.append("begun")
            refused[0] = aws.stack.fab(*DESTROY).ended(2).text

    aws.watch(destroy)
    aws.stack.up().ended(0)
    assert "another Pulumi command works on stack g4dn" in refused[0]
    assert "if it was killed: pulumi cancel --yes --stack g4dn && fab teardown" in refused[0]
    assert len(aws.running()) == 2
    aws.watch(lambda _: None)
    aws.stack.fab(*DESTROY).ended(0)
    check_nothing_runs(aws)


def test_a_configured_bucket_in_no_state_is_created_again(aws: OnAws) -> None:
    aws.stack.config(count=1, bucket_name="results-of-ann")
    kill_up(aws, "after create aws:s3/bucket:Bucket")
    aws.stack.run("cancel", "--yes", "--stack", "g4dn")
    done = aws.stack.fab("up", "--yes", "--stack", "g4dn")
    done.ended(0, "removed the empty bucket results-of-ann")
    assert "s3://results-of-ann" in str(aws.stack.output()["cluster"])


def test_fab_up_goes_to_the_next_zone(aws: OnAws) -> None:
    """Of those that offer the type: no zone is configured."""
    aws.stack.config(count=2)
    aws.provider.fail(INSTANCE, 2, *CAPACITY)
    done = aws.stack.fab("up", "--yes", "--stack", "g4dn").ended(0)
    assert "no capacity in us-east-1a: now in us-east-1b" in done.text
    places = [one["Placement"]["AvailabilityZone"] for one in aws.instances()]
    assert places == ["us-east-1b"] * 2
    aws.stack.up("--expect-no-changes").ended(0)

    aws.provider.fail(INSTANCE, aws.provider.created[INSTANCE] + 1, *CAPACITY)
    aws.stack.config(count=3)
    before = ids(aws.instances())
    done = aws.stack.fab("up", "--yes", "--stack", "g4dn").ended(
        4, "broke off", "2 machines running now"
    )
    assert ids(aws.instances()) == before, "machines that existed are not given up"


def test_fab_up_without_capacity_anywhere_leaves_no_machine_unnamed(aws: OnAws) -> None:
    aws.stack.config(count=1, zones="us-east-1b,us-east-1c")
    for number in (1, 2):
        aws.provider.fail(INSTANCE, number, *CAPACITY)
    done = aws.stack.fab("up", "--yes", "--stack", "g4dn").ended(
        4, "none of its zones has capacity"
    )
    assert "it has no machine" in done.text
    assert not aws.instances()


def test_spot_machines_that_were_taken_away_come_back_with_new_deadlines(aws: OnAws) -> None:
    aws.stack.config(spot=True).up().ended(0)
    first = ids(aws.instances())
    aws.cloud.client("ec2").terminate_instances(InstanceIds=first)
    aws.stack.up().ended(0)
    assert "gone, though in Pulumi's state: g4dn-1, g4dn-2" in aws.stack.output()["next"]
    aws.stack.fab("start", "--stack", "g4dn").ended(2, "gone", "fab up --refresh --stack g4dn")
    aws.stack.fab("up", "--replace", "g4dn-2", "--yes", "--stack", "g4dn").ended(
        0, "g4dn-2 was created again; no run recorded here is in progress without it"
    )
    now = ids(aws.instances())
    assert len(now) == 2 and not set(now) & set(first)
    assert aws.stack.output()["deadline"] and len(aws.stack.output()["hosts"]) == 2
    check_deadlines(aws)
    aws.stack.fab("stop", "--stack", "g4dn").ended(
        2, "their disks are deleted", "next: fab stop --stack g4dn --yes"
    )
    assert ids(aws.instances()) == now
    aws.stack.fab("teardown", "--yes", "--stack", "g4dn").ended(0)
    assert not aws.instances()
