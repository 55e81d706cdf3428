"""EC2's quotas: counted as AWS counts, shown at every preview, requested only upwards."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stacks.aws import machine_types
from tests.stacks.aws.world import INSTANCE, QUOTA, denied, made, previewed, world

# vCPUs of one machine, as docs/config.md lists them.
PAGE = Path(__file__).parents[3] / "docs" / "config.md"
ROWS = re.findall(r"^\| `([a-z0-9.]+)` \| (\d+) \| \d+ nvidia-", PAGE.read_text(), re.MULTILINE)
VCPUS = {name: int(vcpus) for name, vcpus in ROWS}
CODES = {
    ("p", False): "L-417A185B",
    ("p", True): "L-7212CCBC",
    ("g", False): "L-DB2E81BA",
    ("g", True): "L-3819A6DF",
}


def test_every_type_is_counted_here() -> None:
    assert len(VCPUS) >= 27 and VCPUS.keys() == machine_types.TYPES.keys()


@pytest.mark.parametrize(("spot", "count"), [(False, 3), (True, 16)])
@pytest.mark.parametrize("machine_type", sorted(VCPUS))
def test_the_requested_quota_is_what_the_machines_need(
    machine_type: str, count: int, spot: bool
) -> None:
    """Of exactly the quota that counts, exactly the sum; one less is too little."""
    amount = VCPUS[machine_type] * count
    small = world(quota=amount - 1)
    request = made(small, quotas="request", machine_type=machine_type, count=count, spot=spot)
    code = CODES[machine_type[0], spot]
    wanted = {"serviceCode": "ec2", "quotaCode": code, "value": amount}
    assert request.one(QUOTA).inputs == wanted
    assert f"have {amount - 1}, need {amount} vCPU" in request.text


def test_enough_makes_no_quota_resource() -> None:
    cluster = made(world(quota=8))
    assert QUOTA not in cluster.kinds and len(cluster.every(INSTANCE)) == 2
    assert "have 8, need 8 vCPU" in cluster.text


def test_too_small_a_quota_names_the_request_command() -> None:
    message = denied(world(quota=0))
    assert "have 0, need 8 vCPU" in message
    assert "have 7, need 8 vCPU" in denied(world(quota=7))
    assert "pulumi config set quotas request && pulumi up" in message


def test_an_unreadable_quota_is_logged_and_counts_as_enough() -> None:
    cluster = made(world(quota=None))
    assert "have unknown" in cluster.text and "AccessDeniedException" in cluster.text
    assert len(cluster.every(INSTANCE)) == 2
    assert "have unknown" in previewed(world(quota=None)).text


def test_a_request_makes_no_machines_and_outlives_the_stack() -> None:
    request = made(world(quota=4), quotas="request")
    assert request.kinds == {QUOTA}
    assert request.one(QUOTA).retain_on_delete
    assert "no machines" in request.text and "pulumi config rm quotas && pulumi up" in request.text
    assert "cluster" not in request.outputs, "Pulumi exports no null"


def test_a_request_is_never_for_less_than_there_is() -> None:
    assert "there is nothing to request" in denied(world(quota=8), quotas="request")
    assert "there is nothing to request" in denied(world(quota=9999), quotas="request")
    assert "could decrease the quota" in denied(world(quota=None), quotas="request")


def test_a_request_does_not_destroy_machines() -> None:
    message = denied(world(quota=4, machines=["i-1", "i-2"]), quotas="request")
    assert "would destroy the machines of this stack: i-1, i-2" in message
