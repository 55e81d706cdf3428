"""A stack breaks off, works with what there is, is resized, breaks off again, and is destroyed: the
real engine and the real `fab`, on AWS over moto or on the stand-in for Google Cloud."""

from __future__ import annotations

from typing import Any

import pytest
from draws import drawn
from engine.aws import INSTANCE, OnAws, check_deadlines, tags
from engine.gcp import OnGcp

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
CAPACITY = ("InsufficientInstanceCapacity", "We currently do not have sufficient capacity")
STOCK_OUT = "ZONE_RESOURCE_POOL_EXHAUSTED: the zone does not have enough resources available"
DESTROY_AWS = ("teardown", "--destroy", "--yes", "--stack", "g4dn")
DESTROY_GCP = ("teardown", "--destroy", "--yes", "--stack", "t4")


def test_a_stack_breaks_off_is_resized_breaks_off_and_is_destroyed(
    request: pytest.FixtureRequest,
) -> None:
    if drawn(["aws", "gcp"]) == "aws":
        on_aws(request.getfixturevalue("aws"))
    else:
        on_google_cloud(request.getfixturevalue("gcp"))


def ids(machines: list[dict[str, Any]]) -> list[str]:
    return [one["InstanceId"] for one in machines]


def on_aws(aws: OnAws) -> None:
    check_stop_and_teardown_on_aws(aws)
    check_a_resize_on_aws(aws)
    check_machines_of_others_are_listed_and_never_ended(aws)


def check_stop_and_teardown_on_aws(aws: OnAws) -> None:
    aws.provider.fail(INSTANCE, 2, *CAPACITY)
    aws.stack.up().ended(1)
    (left,) = aws.instances()
    aws.stack.fab("start", "--stack", "g4dn").ended(2, "broke off", "fab up --stack g4dn")
    aws.stack.fab("stop", "--stack", "g4dn").ended(0, f"[{tags(left)['Name']}] stopped")
    assert ids(aws.instances("stopped")) == ids([left])
    aws.stack.fab("teardown", "--stack", "g4dn").ended(0, "it costs nothing by the hour")
    aws.stack.up().ended(0)
    assert len(aws.instances()) == 2 and left["InstanceId"] in ids(aws.instances())


def check_a_resize_on_aws(aws: OnAws) -> None:
    aws.provider.fail(INSTANCE, aws.provider.created[INSTANCE] + 2, *CAPACITY)
    aws.stack.config(count=4).up().ended(1)
    assert len(aws.stack.output()["cluster"]["hosts"]) == 2 and len(aws.instances()) == 3
    check_deadlines(aws)
    receipt = aws.stack.fab("teardown", "--stack", "g4dn").ended(0)
    assert receipt.text.count("stopped (EC2") == 3
    assert len(aws.instances("stopped")) == 3


def check_machines_of_others_are_listed_and_never_ended(aws: OnAws) -> None:
    """A colleague's stack with the same name, cluster and owner in the same account."""
    theirs = {**aws.tags, "railhead:id": "ffffffffffff", "Name": "g4dn-1"}
    spec = {"ResourceType": "instance", "Tags": [{"Key": k, "Value": v} for k, v in theirs.items()]}
    ec2 = aws.cloud.client("ec2")
    image = aws.instances()[0]["ImageId"]
    made = ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1, TagSpecifications=[spec])
    other = made["Instances"][0]["InstanceId"]
    stray = {**aws.tags, "Name": "g4dn-1"}
    spec = {"ResourceType": "instance", "Tags": [{"Key": k, "Value": v} for k, v in stray.items()]}
    made = ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1, TagSpecifications=[spec])
    own = made["Instances"][0]["InstanceId"]

    done = aws.stack.fab(*DESTROY_AWS).ended(0)
    assert f"machine g4dn-1.{own[-17:]} ({own})" in done.text
    assert ids(aws.instances()) == [other]
    assert aws.stack.resources() == []
    aws.stack.fab("status", "--stack", "g4dn").ended(2, other, "fab adopt ffffffffffff")


def on_google_cloud(gcp: OnGcp) -> None:
    check_stop_and_teardown_on_google_cloud(gcp)
    check_a_resize_on_google_cloud(gcp)
    check_a_machine_in_no_state_is_named_and_ended_and_that_of_others_is_not(gcp)


def check_stop_and_teardown_on_google_cloud(gcp: OnGcp) -> None:
    gcp.cloud.refuse, gcp.cloud.refuse_after = {"t4-2": STOCK_OUT}, 1
    gcp.stack.up().ended(1)
    assert gcp.instances() == ["t4-1"] and len(gcp.running()) == 1
    gcp.stack.fab("start", "--stack", "t4").ended(2, "broke off", "fab up --stack t4")
    gcp.stack.fab("stop", "--stack", "t4").ended(0, "[t4-1] stopped")
    assert gcp.instances() == ["t4-1"] and not gcp.running()
    gcp.stack.fab("teardown", "--stack", "t4").ended(0, "it costs nothing by the hour")
    gcp.cloud.refuse.clear()
    gcp.stack.up().ended(0)
    assert gcp.instances() == ["t4-1", "t4-2"]


def check_a_resize_on_google_cloud(gcp: OnGcp) -> None:
    gcp.cloud.refuse, gcp.cloud.refuse_after = {"t4-4": STOCK_OUT}, 3
    gcp.stack.config(count=4).up().ended(1)
    assert len(gcp.stack.output()["cluster"]["hosts"]) == 2
    assert gcp.instances() == ["t4-1", "t4-2", "t4-3"]
    gcp.check_deadlines()
    receipt = gcp.stack.fab("teardown", "--stack", "t4").ended(0)
    assert receipt.text.count("stopped (Compute Engine") == 3, receipt.text
    assert gcp.instances() == ["t4-1", "t4-2", "t4-3"] and not gcp.running()


def check_a_machine_in_no_state_is_named_and_ended_and_that_of_others_is_not(gcp: OnGcp) -> None:
    """As SIGKILL of Pulumi leaves one; the name of a machine is unique in a project and zone."""
    made, *_ = gcp.cloud.compute.instances
    labels = gcp.cloud.compute.instances[made]["labels"]
    zone = made.rpartition("/")[0]
    interface = {"networkIP": "10.164.0.9", "accessConfigs": [{"natIP": "198.51.100.9"}]}
    gcp.cloud.compute.add(f"{zone}/t4-9", labels=labels, networkInterfaces=[interface])
    theirs = {**labels, "railhead-id": "ffffffffffff"}
    gcp.cloud.compute.add(f"{zone}/t4-8", labels=theirs)
    status = gcp.stack.fab("status", "--stack", "t4").text
    assert "in no state of Pulumi, with this stack's id: t4-9" in status, status
    assert "which no command of this stack ends:\n  t4-8" in status
    gcp.stack.fab(*DESTROY_GCP).ended(0, "machine t4-9")
    assert gcp.instances() == ["t4-8"] and gcp.stack.resources() == [] and not gcp.cloud.things
