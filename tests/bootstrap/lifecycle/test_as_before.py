"""What an `up` leaves as it was: machines that were stopped or ran, deadlines that were moved."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from places import CASES
from standins.aws.account import run_instances

from bootstrap.clouds import base
from bootstrap.inventory.document import from_document
from bootstrap.inventory.hosts import Inventory
from bootstrap.inventory.stack_state import read_state
from bootstrap.lifecycle.creation import as_before
from bootstrap.lifecycle.creation.as_before import Before
from bootstrap.lifecycle.stack_machines import StackMachines

Clients = Callable[[str], Any]


@pytest.fixture
def inventory(aws_client: Clients, monkeypatch: pytest.MonkeyPatch) -> Inventory:
    """Two machines that run, each with a schedule in an hour."""
    monkeypatch.setattr(base, "POLL_SECONDS", 0.0)
    aws_client("ec2")
    golden = from_document(json.loads((CASES / "documents/cluster-aws.json").read_text()))
    ids = [instance["InstanceId"] for instance in run_instances(2)]
    hosts = tuple(replace(h, id=i) for h, i in zip(golden.hosts, ids, strict=True))
    made = replace(golden, hosts=hosts, bucket=None, deadlines=(), cluster_id=None)
    for id_ in ids:
        aws_client("scheduler").create_schedule(
            Name=f"railhead-{made.name}-{id_}", FlexibleTimeWindow={"Mode": "OFF"},
            ScheduleExpression=f"at({later(1):%Y-%m-%dT%H:%M:%S})",
            Target={
                "Arn": "arn:aws:scheduler:::aws-sdk:ec2:stopInstances",
                "RoleArn": "arn:aws:iam::123456789012:role/stop",
                "Input": json.dumps({"InstanceIds": [id_]}),
            },
        )  # fmt: skip
    return made


def later(hours: float) -> datetime:
    return datetime.now(timezone.utc) + timedelta(hours=hours)


def states(inventory: Inventory) -> list[str]:
    return [state.state for state in base.cloud_of(inventory).instance_states().values()]


@pytest.mark.parametrize(
    ("were", "stopped_now", "after"),
    [
        (("stopped", "running"), (), ["stopped", "running"]),
        (("running", "stopped"), (0, 1), ["running", "stopped"]),
        (("gone", "running"), (), ["running", "running"]),
        (("stopping", "running"), (0,), ["stopped", "running"]),
        (("running", "running"), (), ["running", "running"]),
    ],
    ids=["was stopped", "ran", "created again", "was stopping", "as it was"],
)
def test_a_machine_is_stopped_or_runs_as_before(
    inventory: Inventory,
    aws_client: Clients,
    were: tuple[str, str],
    stopped_now: tuple[int, ...],
    after: list[str],
) -> None:
    if stopped_now:
        ids = [str(inventory.hosts[number].id) for number in stopped_now]
        aws_client("ec2").stop_instances(InstanceIds=ids)
    before = Before(dict(zip(inventory.names, were, strict=True)))
    as_before.restore(before, inventory, lambda _: None)
    assert states(inventory) == after


def test_a_cloud_that_does_not_answer_before_a_change_is_reported(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = StackMachines(read_state("dev", {}), inventory, inventory)
    lines: list[str] = []
    before = as_before.read(machines, lines.append)
    assert set(before.states) == {*inventory.names} and not lines
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    assert as_before.read(machines, lines.append) == Before()
    (line,) = lines
    assert line.startswith("how the machines are now is not known: ")


@pytest.mark.parametrize(("hours", "expected"), [(20, 20), (0.5, 1), (-1, 1)])
def test_a_deadline_that_was_moved_later_is_moved_there_again(
    inventory: Inventory, hours: float, expected: float
) -> None:
    """One that is earlier stays, and so does that of another machine."""
    first, second = inventory.names
    cloud = base.cloud_of(inventory)
    old: Mapping[str, base.Deadline] = cloud.deadlines()
    before = Before(dict.fromkeys((first, second), "running"), dict(old))
    moved = replace(old[first], at=later(hours))
    before = replace(before, deadlines={first: moved, second: old[second]})
    as_before.restore(before, inventory, lambda _: None)
    now = cloud.deadlines()
    for name, expected_hours in ((first, expected), (second, 1)):
        end = now[name].at
        assert end and abs((end - later(expected_hours)).total_seconds()) < 120


def test_a_running_machine_whose_deadline_has_passed_is_an_error(
    inventory: Inventory, aws_client: Clients
) -> None:
    assert as_before.deadline_error(inventory) is None
    first, second = (str(host.id) for host in inventory.hosts)
    for machine in (first, second):
        name = f"railhead-{inventory.name}-{machine}"
        schedule = aws_client("scheduler").get_schedule(Name=name)
        kept = {key: schedule[key] for key in ("Name", "Target", "FlexibleTimeWindow")}
        past = "at(2026-01-01T00:00:00)"
        aws_client("scheduler").update_schedule(**kept, ScheduleExpression=past)
    aws_client("ec2").stop_instances(InstanceIds=[second])
    error = as_before.deadline_error(inventory)
    assert error and f"own deadline of {inventory.names[0]} is past" in error.message
    assert error.hint.startswith("fab extend ")
