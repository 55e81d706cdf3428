"""`fab up` tries another zone only where it gives up nothing. tests/engine runs it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bootstrap.errors import RailheadError
from bootstrap.inventory import pulumi_stack
from bootstrap.inventory.document import from_document
from bootstrap.inventory.pulumi_stack import Streamed
from bootstrap.inventory.stack_state import read_state
from bootstrap.lifecycle import stack_machines, up
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


def test_the_stack_and_fab_know_the_same_refusals_for_capacity() -> None:
    broken_up = pytest.importorskip("stacks.broken_up", reason="scripts/setup --stacks installs it")
    assert up.CAPACITY == broken_up.CAPACITY
