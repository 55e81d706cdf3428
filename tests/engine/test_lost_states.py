"""Machines that run while Pulumi's state of their stack is lost, or the login has expired: the real
engine and the real `fab`, over moto and the Google Cloud stand-in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine import gcp as google
from engine.aws import INSTANCE, OnAws
from engine.gcp import OnGcp
from engine.kills import kill_up

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
TEARDOWN = ("teardown", "--destroy", "--yes", "--stack")


@pytest.fixture
def gcp(engine: Path, tmp_path: Path) -> Iterator[OnGcp]:
    with google.fresh(engine, tmp_path) as made:
        yield made


def lose_state(site: OnAws | OnGcp) -> None:
    """Remove the stack from Pulumi, and every record of it on this computer."""
    settings = (site.stack.folder / f"Pulumi.{site.stack.name}.yaml").read_text()
    site.stack.run("stack", "rm", "--force", "--yes", site.stack.name).ended(0)
    (site.stack.folder / f"Pulumi.{site.stack.name}.yaml").write_text(settings)
    for record in (Path(site.stack.env["HOME"]) / ".railhead").rglob("*.json"):
        record.unlink()


def adopt_command(text: str) -> list[str]:
    """The arguments of the `fab adopt` that a text names."""
    found = re.search(r"next: fab (adopt \S+)", text)
    assert found, text
    return found[1].split()


def test_machines_without_a_state_are_named_and_taken_back(aws: OnAws) -> None:
    aws.stack.config(count=1, bucket=False, region="us-west-2")
    aws.provider.region = "us-west-2"
    aws.stack.up().ended(0)
    cluster_id, (machine,) = aws.id, machines(aws)
    expired = {**aws.stack.env, "AWS_ENDPOINT_URL_EC2": aws.cloud.expired}
    own, aws.stack.env = aws.stack.env, expired
    aws.stack.fab("stop", "--stack", "g4dn").ended(2, machine, "its cloud stops it at", "aws sso")
    aws.stack.env = own

    lose_state(aws)
    for command in (("status",), ("train",), ("teardown", "--destroy", "--yes")):
        text = aws.stack.fab(*command, "--stack", "g4dn").ended(2, machine, "owner ann").text
        assert adopt_command(text) == ["adopt", cluster_id]
    aws.stack.run("stack", "init", "g4dn").ended(0)
    aws.stack.fab("status", "--stack", "g4dn").ended(2, machine, "owner ann")
    aws.stack.config(owner="ben")
    aws.stack.fab("adopt", cluster_id).ended(2, f"fab adopt {cluster_id} --owner ann")
    aws.stack.config(owner="ann")
    aws.stack.fab("adopt", cluster_id).ended(0, f"fab status --stack {cluster_id}")

    aws.stack.fab("extend", "--hours", "5", "--stack", cluster_id)
    aws.stack.fab("stop", "--stack", cluster_id).ended(0, "[g4dn-1] stopped")
    aws.stack.fab(*TEARDOWN, cluster_id).ended(0, "gone (EC2 DescribeInstances")
    assert not machines(aws) and not aws.remains()
    aws.stack.fab(*TEARDOWN, "g4dn").ended(0, "no machine has its tags in account 123456789012")


def machines(aws: OnAws) -> list[str]:
    """The machines of the region."""
    held = aws.cloud.client("ec2", "us-west-2").describe_instances()["Reservations"]
    every = [one for each in held for one in each["Instances"]]
    return [one["InstanceId"] for one in every if one["State"]["Name"] != "terminated"]
