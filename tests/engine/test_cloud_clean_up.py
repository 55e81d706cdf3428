"""What `make test-cloud` does at its end, on stacks that broke off: the real engine, over moto."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from engine.aws import INSTANCE, OnAws
from standins.forks import FAB_OF_A_STACK, FORKED

from bootstrap.inventory import pulumi_cli
from campaigns.cloud.clean_up import clean_up
from campaigns.kills import kill_up

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
CAPACITY = ("InsufficientInstanceCapacity", "We currently do not have sufficient capacity")


@pytest.fixture
def aws(aws: OnAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OnAws:
    """The commands of this process are typed in the stack's folder; `fab` is a fork."""
    fab = tmp_path / "bin/fab"
    fab.parent.mkdir()
    fab.write_text(f'#!/bin/sh\nexec {FORKED} {FAB_OF_A_STACK} "$@"\n')
    fab.chmod(0o755)
    for name, value in aws.stack.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{fab.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(pulumi_cli, "CLONE", aws.stack.folder)
    return aws


def check_nothing_is_left(aws: OnAws) -> None:
    assert not aws.instances() and not aws.schedules()
    assert not aws.cloud.client("s3").list_buckets()["Buckets"]
    assert "g4dn" not in aws.stack.run("stack", "ls").ended(0).text


def test_an_up_without_capacity_is_ended(aws: OnAws) -> None:
    """With its bucket, and what is in it."""
    aws.provider.fail(INSTANCE, 2, *CAPACITY)
    aws.stack.up().ended(1)
    s3 = aws.cloud.client("s3")
    (bucket,) = (one["Name"] for one in s3.list_buckets()["Buckets"])
    s3.put_object(Bucket=bucket, Key="runs/1/result.json", Body=b"{}")
    clean_up("g4dn", aws.stack.folder)
    check_nothing_is_left(aws)


def test_a_killed_up_is_ended_with_the_machine_in_no_state(aws: OnAws) -> None:
    aws.stack.config(bucket=False)
    aws.slow_down(2)
    kill_up(aws, f"after create {INSTANCE}")
    assert aws.instances() and not [r for r in aws.stack.resources() if r["type"] == INSTANCE]
    clean_up("g4dn", aws.stack.folder)
    check_nothing_is_left(aws)


def test_what_cannot_be_ended_is_named(aws: OnAws) -> None:
    aws.stack.config(count=1, bucket=False).up().ended(0)
    (held,) = aws.existing()
    keep = {"InstanceId": held, "DisableApiTermination": {"Value": True}}
    aws.cloud.client("ec2").modify_instance_attribute(**keep)
    with pytest.raises(AssertionError, match=rf"NOT ENDED, and they cost money: \['{held}'\]"):
        clean_up("g4dn", aws.stack.folder)
    assert list(aws.existing()) == [held]
