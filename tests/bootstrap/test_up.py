"""`fab up` tries another zone only where it gives up nothing. tests/engine runs it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bootstrap.clouds import machines
from bootstrap.clouds.machines import Machine, Place
from bootstrap.errors import RailheadError
from bootstrap.inventory import pulumi_stack
from bootstrap.inventory.document import from_document
from bootstrap.inventory.pulumi_stack import Streamed
from bootstrap.inventory.stack_state import StateMachine, read_state
from bootstrap.lifecycle import power, stack_machines, up
from bootstrap.lifecycle.stack_machines import StackMachines

CASES = Path(__file__).parents[1] / "cases"
GOLDEN = from_document(json.loads((CASES / "documents/cluster-aws.json").read_text()))
NONE = StackMachines(read_state("dev", {}), None, None)
REFUSED = Streamed(255, "error: InsufficientInstanceCapacity")


@pytest.mark.parametrize(
    ("before", "done", "moves"),
    [
        (NONE, REFUSED, True),
        (NONE, Streamed(255, "error: UnauthorizedOperation"), False),
        (NONE, replace(REFUSED, interrupted=True), False),
        (replace(NONE, unlisted="AWS does not answer"), REFUSED, False),
        (replace(NONE, inventory=GOLDEN), REFUSED, False),
    ],
    ids=["no machine", "another error", "Ctrl-C", "not listed", "machines before"],
)
def test_another_zone_is_tried_only_where_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch, before: StackMachines, done: Streamed, moves: bool
) -> None:
    found, tried = iter([before]), list[tuple[str, ...]]()
    monkeypatch.setattr(stack_machines, "find", lambda _: next(found, NONE))
    monkeypatch.setattr(pulumi_stack, "zones", lambda _: ("us-east-1a", "us-east-1b"))
    monkeypatch.setattr(pulumi_stack, "up", lambda *_, **__: done)
    monkeypatch.setattr(pulumi_stack, "set_zones", lambda _, zones: tried.append(zones))
    monkeypatch.setattr(up, "_remove", lambda *_: None)
    with pytest.raises(RailheadError, match="broke off"):
        up.up("dev", print, yes=True, refresh=False)
    assert tried == ([("us-east-1b", "us-east-1a")] if moves else [])


STRAY = Machine("t4-1", "t4-1", "running", "z", "n1", None, None, "t4", end="gcloud delete t4-1")
EXISTS = Streamed(255, "error: 409: The resource 'instances/t4-1' already exists")


@pytest.mark.parametrize(
    ("found", "done", "next_"),
    [
        (NONE, EXISTS, "fab teardown --destroy --stack dev && fab up --stack dev"),
        (replace(NONE, strays=(STRAY,)), EXISTS, "gcloud delete t4-1 && fab up --stack dev"),
        (NONE, Streamed(255, "error: UnauthorizedOperation"), "fab up --stack dev   # goes on"),
    ],
    ids=["a rule of the network", "a machine in no state", "another error"],
)
def test_what_a_killed_up_left_in_the_way_has_its_command(
    monkeypatch: pytest.MonkeyPatch, found: StackMachines, done: Streamed, next_: str
) -> None:
    monkeypatch.setattr(stack_machines, "find", lambda _: found)
    monkeypatch.setattr(pulumi_stack, "zones", lambda _: ())
    monkeypatch.setattr(pulumi_stack, "up", lambda *_, **__: done)
    monkeypatch.setattr(up, "_remove", lambda *_: None)
    with pytest.raises(RailheadError, match="broke off") as caught:
        up.up("dev", print, yes=True, refresh=False)
    assert caught.value.hint.startswith(next_)


@pytest.mark.parametrize(
    ("text", "conflict"),
    [
        ("api error InvalidPermission.Duplicate: The specified rule already exists", True),
        ("api error InvalidSubnet.Conflict: The CIDR conflicts with another subnet", True),
        ("api error Resource.AlreadyAssociated: the specified association", True),
        ("api error ConflictException: Schedule railhead-g4dn-i-1", True),
        ("error: InsufficientInstanceCapacity", False),
    ],
)
def test_refusals_of_what_exists(text: str, conflict: bool) -> None:
    assert up.is_conflict(text) == conflict


@pytest.mark.parametrize("before", [NONE, replace(NONE, inventory=GOLDEN)])
def test_what_is_in_the_way_is_removed_where_no_machine_was(
    monkeypatch: pytest.MonkeyPatch, before: StackMachines
) -> None:
    runs, removed = iter([EXISTS, Streamed(0, "")]), list[str]()
    monkeypatch.setattr(stack_machines, "find", lambda _: before)
    monkeypatch.setattr(pulumi_stack, "zones", lambda _: ())
    monkeypatch.setattr(pulumi_stack, "up", lambda *_, **__: next(runs))
    monkeypatch.setattr(power, "cluster_status", lambda _: power.ClusterStatus(GOLDEN, {}, ""))
    monkeypatch.setattr(power, "print_status", lambda *_: None)
    monkeypatch.setattr(up, "_remove", lambda stack, _: removed.append(stack))
    if before is NONE:
        up.up("dev", print, yes=True, refresh=False)
    else:
        with pytest.raises(RailheadError, match="broke off"):
            up.up("dev", print, yes=True, refresh=False)
    assert removed == (["dev"] if before is NONE else [])


def test_a_schedule_in_no_state_is_removed_before_an_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is in use: Pulumi could not make it. Schedules in the state stay."""
    one = StateMachine("i-1", "g4dn-1", None, None, None)
    state = replace(
        NONE.state, cloud="aws", cluster="g4dn", schedules=("railhead-g4dn-i-1",),
        machines=(one, replace(one, id="i-2")),
    )  # fmt: skip
    asked, lines = list[tuple[str, list[str]]](), list[str]()

    def remove(_: Place, cluster: str, ids: list[str]) -> list[str]:
        asked.append((cluster, ids))
        return [f"railhead-{cluster}-{one}" for one in ids]

    monkeypatch.setattr(machines, "remove_deadlines", remove)
    monkeypatch.setattr(stack_machines, "find", lambda _: replace(NONE, state=state))
    monkeypatch.setattr(pulumi_stack, "zones", lambda _: ())
    monkeypatch.setattr(pulumi_stack, "up", lambda *_, **__: Streamed(0, ""))
    up.up("dev", lines.append, yes=True, refresh=False)
    assert asked == [("g4dn", ["i-2"])] and "left railhead-g4dn-i-2: removed" in lines[0]


def test_the_stack_and_fab_know_the_same_refusals_for_capacity() -> None:
    broken_up = pytest.importorskip("stacks.broken_up", reason="scripts/setup --stacks installs it")
    assert up.CAPACITY == broken_up.CAPACITY
