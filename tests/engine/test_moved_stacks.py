"""A stack whose config names another place while its machines exist in the recorded one: the real
engine and the real `fab`, over moto and the Google Cloud stand-in."""

from __future__ import annotations

import re
import shlex

import pytest
from engine.aws import INSTANCE, OnAws
from engine.gcp import OnGcp

from campaigns.kills import kill_up

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
OFFERINGS = "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings"
DESTROY = ("teardown", "--destroy", "--yes", "--stack")


def place(site: OnAws | OnGcp) -> dict[str, str]:
    """The place in Pulumi's state."""
    (kept,) = (r for r in site.stack.resources() if r["urn"].endswith("::cluster-place"))
    recorded: dict[str, str] = kept["outputs"]["input"]
    return recorded


def next_command(text: str, name: str) -> str:
    """The command that the last error of a text names."""
    found = re.findall(r"next: (.*)", text.rpartition(f"fab {name}: ")[2])
    assert found, text
    return str(found[-1])


def test_a_killed_stack_cannot_move_while_its_machines_run(aws: OnAws) -> None:
    aws.stack.config(count=1, bucket=False)
    kill_up(aws, f"after create {INSTANCE}")
    (machine,) = aws.existing()
    aws.stack.run("cancel", "--yes", "--stack", "g4dn")

    aws.stack.config(region="us-west-2")
    aws.stack.preview().ended(1, machine, "this stack is in aws, us-east-1")
    refused = aws.stack.fab("up", "--yes", "--stack", "g4dn").ended(2, machine)
    following = next_command(refused.text, "up")
    assert "pulumi config set region us-east-1 --stack g4dn && fab up --stack g4dn" in following
    assert "fab teardown --destroy --stack g4dn" in following
    aws.stack.config(cloud="local", region=None, bucket=None, ssh_cidrs=None, public_key_file=None)
    aws.stack.preview().ended(1, machine, "pulumi config set cloud aws --stack g4dn")
    assert place(aws)["region"] == "us-east-1", "a refused place is not recorded"

    assert "[g4dn-1] running" in aws.stack.fab("status", "--stack", "g4dn").text
    aws.stack.fab(*DESTROY, "g4dn").ended(0, "gone (EC2 DescribeInstances")
    assert not aws.existing() and not aws.remains() and aws.stack.resources() == []


def test_a_stack_of_which_nothing_exists_moves_and_is_recorded_there(aws: OnAws) -> None:
    """Its first `up` was refused before it created anything. The new place then holds it."""
    aws.stack.config(count=1, bucket=False)
    aws.provider.denied.add(OFFERINGS)
    aws.stack.up().ended(1, "DescribeInstanceTypeOfferings")
    aws.provider.denied.clear()
    assert place(aws)["region"] == "us-east-1"
    aws.stack.config(region="us-west-2").up().ended(0)
    assert place(aws)["region"] == "us-west-2"
    aws.stack.config(region="us-east-1").preview().ended(1, "this stack is in aws, us-west-2")

    aws.stack.config(region="us-west-2")
    aws.log_in("999999999999")
    refused = aws.stack.preview().ended(1, "these credentials are of account 999999999999")
    assert "log in to account 123456789012" in refused.text
    other = aws.stack.fab(*DESTROY, "g4dn").ended(2, "log in to account 123456789012")
    assert aws.stack.resources(), "the state is kept for the account that has the machines"
    check_the_way_out_of_a_closed_account(aws, refused.text)
    assert forgetting(other.text) == forgetting(refused.text)


def forgetting(text: str) -> list[str]:
    """The commands for a stack in a closed account."""
    (commands,) = set(re.findall(r"if that account is closed: (.*)", text))
    return str(commands).split(" && ")


def check_the_way_out_of_a_closed_account(aws: OnAws, text: str) -> None:
    *forget, up = forgetting(text)
    assert len(forget) == 2 and up == "fab up --stack g4dn"
    for command in forget:
        aws.stack.run(*shlex.split(command)[1:]).ended(0)
    aws.stack.fab("up", "--yes", "--stack", "g4dn").ended(0)
    assert aws.stack.fab(*DESTROY, "g4dn").ended(0) and aws.stack.resources() == []


def test_a_stack_on_google_cloud_cannot_move_to_another_project(gcp: OnGcp) -> None:
    gcp.stack.config(count=1).up().ended(0)
    (machine,) = gcp.existing()
    gcp.stack.config(project="p-67890")
    refused = gcp.stack.fab("up", "--yes", "--stack", "t4").ended(2, machine)
    assert "pulumi config set project p-12345 --stack t4" in next_command(refused.text, "up")
    gcp.stack.config(project="p-12345", region="europe-west4").preview().ended(1, machine)
    gcp.stack.fab(*DESTROY, "t4").ended(0)
    assert not gcp.existing() and gcp.stack.resources() == []
