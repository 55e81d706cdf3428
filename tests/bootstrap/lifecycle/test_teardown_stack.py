"""The stop of a stack's machines and its receipt, with clouds that behave and that do not."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest
from standins.stopping_cloud import OURS, StoppingCloud, never, save_run, takes, wakes

from bootstrap.errors import Command, RailheadError
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle import destroy as destroy_stack
from bootstrap.lifecycle.receipt import Receipt, check


def ended(fake: StoppingCloud, inventory: Inventory = OURS) -> tuple[Receipt, list[str]]:
    lines: list[str] = []
    return destroy_stack.stop_with_receipt(inventory, fake, lines.append, clock=fake.clock()), lines


def test_a_cloud_that_takes_90_seconds() -> None:
    fake = StoppingCloud(takes(90))
    receipt, output = ended(fake)
    assert receipt.verified and 90 <= fake.time < 110
    assert output == ["m1, m2 stopping", "m1, m2 stopped"]
    check(receipt, Command("teardown"))
    text = "\n".join(receipt.describe())
    assert "m1     ok  stopped (EC2 X, at " in text
    assert "100 GB: 0.26 USD per day; ends with: fab teardown --destroy" in text


def test_a_cloud_that_never_stops_one() -> None:
    fake = StoppingCloud(never)
    receipt, _ = ended(fake)
    assert 600 <= fake.time < 620
    assert [line.verified for line in receipt.lines if line.host in ("m1", "m2")] == [True, False]
    with pytest.raises(RailheadError, match="not everything could be verified") as caught:
        check(receipt, Command("teardown"))
    assert caught.value.code == 1


def test_a_cloud_that_reports_stopped_and_then_runs() -> None:
    receipt, _ = ended(StoppingCloud(wakes))
    wrong = next(line for line in receipt.lines if line.host == "m2")
    assert not wrong.verified
    assert wrong.text.startswith("running (EC2 X")
    assert wrong.text.endswith("; it was reported as stopped at at 20")


def test_the_time_of_a_stop_is_the_first_at_which_the_cloud_reported_it() -> None:
    """Also when the machine is queried often afterwards."""
    fake = StoppingCloud(takes(0))
    fake.stop()
    times = destroy_stack.StopTimes(fake)
    for fake.time in (7.0, 12.0, 17.0):
        times.instance_states()
    assert times.stopped_at == {"m1": "at 7", "m2": "at 7"}


def test_a_receipt_says_when_the_machines_were_seen_at_rest() -> None:
    receipt, _ = ended(StoppingCloud(takes(90)))
    (first, *_) = [line for line in receipt.lines if line.host == "m1"]
    seen = int(first.text.partition("EC2 X, at ")[2].partition(")")[0])
    assert 90 <= seen < 110
    time = datetime.strptime(receipt.at, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=timezone.utc)
    assert abs((datetime.now(timezone.utc) - time).total_seconds()) < 60


def test_a_cloud_that_refuses_is_reported_and_its_machines_are_not_verified() -> None:
    receipt, _ = ended(StoppingCloud(takes(0), refuses=True))
    assert "UnauthorizedOperation" in receipt.lines[0].text
    assert [line.verified for line in receipt.lines[:3]] == [False] * 3


def test_machines_that_are_gone_are_at_rest() -> None:
    receipt, _ = ended(StoppingCloud(lambda *_: "gone"))
    assert receipt.verified


def test_a_machine_that_nobody_knows_is_not_verified() -> None:
    receipt, _ = ended(StoppingCloud(lambda *_: "unknown"))
    assert not receipt.verified


def test_costs_that_the_cloud_does_not_report_are_not_verified() -> None:
    receipt, _ = ended(StoppingCloud(takes(1), costs_now=None))
    assert receipt.lines[-1].host == "bills" and not receipt.verified


def test_results_that_are_only_on_the_chief_are_reported() -> None:
    save_run()
    receipt, _ = ended(StoppingCloud(takes(1)))
    assert receipt.lines[-1].text.startswith("r1: only on m1")


def test_a_bucket_that_cannot_be_queried_ends_no_receipt(no_aws: None) -> None:
    save_run()
    receipt, _ = ended(StoppingCloud(takes(1)), replace(OURS, bucket="s3://b-1"))
    last = receipt.lines[-1]
    assert "on m1's disk, and perhaps in s3://b-1: AWS call failed" in last.text
    assert not last.verified
