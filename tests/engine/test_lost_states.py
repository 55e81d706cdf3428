"""Machines that run while Pulumi's state of their stack is lost, or the login has expired: the real
engine and the real `fab`, over moto and the Google Cloud stand-in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from engine.aws import OnAws
from engine.gcp import OnGcp

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def lose_state(site: OnAws | OnGcp, *also: str) -> None:
    """Take the stack out of Pulumi as another backend does; remove these files too."""
    config = site.stack.folder / f"Pulumi.{site.stack.name}.yaml"
    settings = config.read_text()
    site.stack.run("stack", "rm", "--force", "--yes", site.stack.name).ended(0)
    config.write_text(settings)
    for pattern in also:
        for path in Path(site.stack.env["HOME"]).glob(pattern):
            path.unlink()


def adopt_command(text: str) -> list[str]:
    """The arguments of the `fab adopt` that a text names."""
    found = re.search(r"next: fab (adopt \S+)", text)
    assert found, text
    return found[1].split()


def test_machines_without_a_state_are_named_and_adopted_by_their_owner(aws: OnAws) -> None:
    """In another clone: by their tags, because this computer has no record."""
    aws.stack.config(count=1, bucket=False).up().ended(0)
    cluster_id, (machine,) = aws.id, aws.existing()
    lose_state(aws, ".railhead/stacks/*.json")
    for command in (("status",), ("train",), ("teardown", "--destroy", "--yes")):
        named = aws.stack.fab(*command, "--stack", "g4dn").ended(2, machine, "owner ann")
        assert adopt_command(named.text) == ["adopt", cluster_id]
    aws.stack.run("stack", "init", "g4dn").ended(0)
    named = aws.stack.fab("teardown", "--destroy", "--yes", "--stack", "g4dn").ended(2, machine)
    aws.stack.config(owner="ben")
    aws.stack.fab(*adopt_command(named.text)).ended(2, f"fab adopt {cluster_id} --owner ann")
    aws.stack.config(owner="ann").fab(*adopt_command(named.text)).ended(0)

    adopted = ("--stack", cluster_id)
    aws.stack.fab("status", "--stack", "g4dn").ended(2, f"fab status --stack {cluster_id}")
    aws.stack.fab("stop", *adopted).ended(0, "[g4dn-1] stopped")
    # Minutes later, so that it is not 4 h 59 min by the time it is printed.
    aws.stack.fab("extend", "--hours", "5.2", "--yes", *adopted).ended(0, "armed", "in 5 h")
    aws.stack.fab("teardown", "--destroy", "--yes", *adopted).ended(0, "gone (EC2")
    assert not aws.existing() and not aws.remains()

    destroy = ("teardown", "--destroy", "--yes", "--stack")
    aws.stack.fab(*destroy, "g4dn").ended(0, "ok  no machine has its tags in account 123456789012")
    aws.stack.run("stack", "init", "empty").ended(0)
    aws.stack.fab(*destroy, "empty").ended(1, "NOT VERIFIED")


def test_after_a_login_expired_the_machines_are_named_with_their_deadlines(aws: OnAws) -> None:
    """With Pulumi's state; then without it, by what this computer has recorded."""
    aws.stack.config(count=1, bucket=False).up().ended(0)
    (machine,) = aws.existing()
    aws.stack.fab("stop", "--stack", "g4dn").ended(0)
    own, aws.stack.env = aws.stack.env, {**aws.stack.env, "AWS_ACCESS_KEY_ID": ""}
    until = aws.schedules()[0]["ScheduleExpression"][3:19].replace("T", " ")
    expired = f"{machine} may run; its cloud stops it at {until} UTC"
    for command in ("status", "stop", "teardown", "train"):
        aws.stack.fab(command, "--stack", "g4dn").ended(2, expired, "next: aws sso login")
    aws.stack.env = own
    lose_state(aws, "project/Pulumi.g4dn.yaml")
    aws.stack.fab("status", "--stack", "g4dn").ended(2, machine, f"fab adopt {aws_id(own)}")


def aws_id(env: dict[str, str]) -> str:
    """The id of the one stack that this computer has recorded."""
    (record,) = (Path(env["HOME"]) / ".railhead/stacks").glob("*.json")
    return record.stem


def test_a_machine_on_google_cloud_is_adopted_from_this_computers_record(gcp: OnGcp) -> None:
    gcp.stack.config(count=1).up().ended(0)
    (machine,) = gcp.existing()
    gcp.stack.fab("stop", "--stack", "t4").ended(0)
    lose_state(gcp, "project/Pulumi.t4.yaml")
    named = gcp.stack.fab("teardown", "--destroy", "--yes", "--stack", "t4").ended(2, machine)
    arguments = adopt_command(named.text)
    gcp.stack.fab(*arguments).ended(2, "the owner is ann")
    gcp.stack.fab(*arguments, "--owner", "ann").ended(0)
    gcp.stack.fab("teardown", "--destroy", "--yes", "--stack", arguments[1]).ended(0)
    assert not gcp.existing()
