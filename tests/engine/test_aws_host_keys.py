"""Injected host keys on the real engine: where the private half is, and what a change does."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest
from engine.aws import INSTANCE, OnAws

HOST_KEY = "pulumi-python:dynamic/aws:HostKey"
HEAD = "#cloud-config\n"


@pytest.fixture
def aws(aws: OnAws) -> OnAws:
    aws.stack.config(host_keys="injected", count=1, placement=False)
    return aws


def given(aws: OnAws) -> list[dict[str, str]]:
    """The keys in each machine's user data, as EC2 has it."""
    found = []
    for one in aws.instances():
        options = {"InstanceId": one["InstanceId"], "Attribute": "userData"}
        output = aws.cloud.client("ec2").describe_instance_attribute(**options)["UserData"]
        text = b64decode(output.get("Value", "")).decode()
        found.append(json.loads(text.removeprefix(HEAD)).get("ssh_keys", {}))
    return found


def document_keys(aws: OnAws) -> list[tuple[Any, Any]]:
    """What the document says of each host's key."""
    hosts = aws.stack.output()["cluster"]["hosts"]
    return [(host.get("host_key"), host["host_key_source"]) for host in hosts]


def written(aws: OnAws) -> str:
    """All that Pulumi wrote: the state with its history and backups, and the engine's events."""
    files = [path for path in (aws.stack.folder / "state").rglob("*") if path.is_file()]
    return "\n".join(path.read_text() for path in [*files, aws.stack.folder / "events.jsonl"])


def check_it_is_nowhere(aws: OnAws, *args: str) -> None:
    """The secret part of a key ends its text."""
    outputs = aws.stack.run("stack", "output", "--stack", "g4dn").ended(0).text
    everywhere = "\n".join([*args, written(aws), outputs])
    for keys in given(aws):
        *_, last, _ = keys["ed25519_private"].splitlines()
        assert len(last) > 20 and last not in everywhere
    assert "PRIVATE KEY" not in everywhere


def test_the_private_half_is_in_the_machine_and_in_no_text(aws: OnAws) -> None:
    done = aws.stack.up("--diff").ended(0)
    keys = given(aws)
    assert document_keys(aws) == [(keys[0]["ed25519_public"], "injected")]
    check_it_is_nowhere(aws, done.text)
    # A refresh brings the user data back without a mark of what it is.
    aws.stack.refresh().ended(0)
    seen = aws.stack.preview("--diff", "--expect-no-changes").ended(0)
    check_it_is_nowhere(aws, seen.text)
    assert given(aws) == keys


def test_a_change_of_mind_is_for_new_machines_alone(aws: OnAws) -> None:
    aws.stack.up().ended(0)
    first, was = aws.instances(), [*document_keys(aws), (None, "console")]
    aws.stack.config(host_keys=None, count=2)
    steps = {(step.op, step.type) for step in aws.stack.up().ended(0).steps}
    assert {("delete", HOST_KEY), ("create", INSTANCE)} <= steps
    assert not {("update", INSTANCE), ("delete-replaced", INSTANCE)} & steps
    assert aws.instances()[0]["InstanceId"] == first[0]["InstanceId"]
    assert document_keys(aws) == was, "the document says how each one was made"
    # What comes in the place of a machine is a new one.
    aws.stack.config(host_keys="injected", image="ami-0fedcba9876543210").up().ended(0)
    assert not {one["InstanceId"] for one in first} & {one["InstanceId"] for one in aws.instances()}
    assert document_keys(aws) == [(keys["ed25519_public"], "injected") for keys in given(aws)]
    assert document_keys(aws)[0] != was[0]
