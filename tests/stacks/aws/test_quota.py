"""EC2's quotas: counted as AWS counts, shown at every preview, requested only upwards."""

from __future__ import annotations

import re

import pytest
from places import ROOT

from stacks.machine_types import aws as machine_types
from tests.stacks.aws.world import INSTANCE, QUOTA, denied, made, previewed, refuse, world

# vCPUs of one machine, as docs/config.md lists them.
PAGE = ROOT / "docs" / "config.md"
ROWS = re.findall(
    r"^\| `([a-z0-9.]+)` \| (\d+) \| (?:\d+ nvidia-|none )", PAGE.read_text(), re.MULTILINE
)
VCPUS = {name: int(vcpus) for name, vcpus in ROWS}
CODES = {
    ("p3", False): "L-417A185B",
    ("p3", True): "L-7212CCBC",
    ("p4", False): "L-417A185B",
    ("p4", True): "L-7212CCBC",
    ("p5", False): "L-417A185B",
    ("p5", True): "L-C4BD4855",
    ("g", False): "L-DB2E81BA",
    ("g", True): "L-3819A6DF",
    ("c", False): "L-1216C47A",
    ("c", True): "L-34B43A08",
    ("m", False): "L-1216C47A",
    ("m", True): "L-34B43A08",
}


def code_of(machine_type: str, spot: bool) -> str:
    (code,) = [CODES[key] for key in CODES if machine_type.startswith(key[0]) and key[1] == spot]
    return code


def test_every_type_is_counted_here() -> None:
    assert len(VCPUS) >= 27 and VCPUS.keys() == machine_types.TYPES.keys()


@pytest.mark.parametrize(("spot", "count"), [(False, 3), (True, 16)])
@pytest.mark.parametrize("machine_type", sorted({n.partition(".")[0]: n for n in VCPUS}.values()))
def test_the_requested_quota_is_what_the_machines_need(
    machine_type: str, count: int, spot: bool
) -> None:
    """Of exactly the quota that counts, exactly the sum; one less is too little."""
    amount = VCPUS[machine_type] * count
    small = world(quota=amount - 1)
    small_quota = made(small, quotas="request", machine_type=machine_type, count=count, spot=spot)
    code = code_of(machine_type, spot)
    request = {"serviceCode": "ec2", "quotaCode": code, "value": amount}
    assert small_quota.one(QUOTA).inputs == request
    assert f"have {amount - 1}, used by others 0, need {amount} vCPU" in small_quota.text


def test_enough_makes_no_quota_resource() -> None:
    cluster = made(world(quota=8))
    assert QUOTA not in cluster.kinds and len(cluster.every(INSTANCE)) == 2
    assert "have 8, used by others 0, need 8 vCPU" in cluster.text


def test_too_small_a_quota_names_the_request_command() -> None:
    message = denied(world(quota=0))
    assert "have 0, used by others 0, need 8 vCPU" in message
    assert "have 7, used by others 0, need 8 vCPU" in denied(world(quota=7))
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
    granted = "pulumi config rm --stack test quotas && pulumi up --stack test"
    assert "no machines" in request.text and granted in request.text
    assert "cluster" not in request.outputs, "Pulumi exports no null"


def test_a_request_is_never_for_less_than_there_is() -> None:
    assert "there is nothing to request" in denied(world(quota=8), quotas="request")
    assert "there is nothing to request" in denied(world(quota=9999), quotas="request")
    assert "could decrease the quota" in denied(world(quota=None), quotas="request")


def test_a_request_does_not_destroy_machines() -> None:
    message = denied(world(quota=4, machines=["i-1", "i-2"]), quotas="request")
    assert "would destroy the machines of this stack: i-1, i-2" in message


RUNNING = {"i-7": "g5.xlarge", "i-8": "g4dn.xlarge", "i-9": "vt1.3xlarge", "i-6": "p3.2xlarge"}


def test_what_others_use_counts() -> None:
    """Of the same quota: not machines of another family, and vCPUs of types that we do not have."""
    message = denied(world(quota=16, running=RUNNING))
    assert "have 16, used by others 12, need 8 vCPU" in message
    assert len(made(world(quota=20, running=RUNNING)).every(INSTANCE)) == 2


def test_spot_and_on_demand_machines_are_counted_apart() -> None:
    there = world(quota=8, running=RUNNING, spot=["i-7", "i-9"])
    assert "have 8, used by others 4, need 8 vCPU" in denied(there)
    assert "have 8, used by others 8, need 8 vCPU" in denied(there, spot=True)


def test_own_machines_are_no_others() -> None:
    """An `up` that makes no machine is not refused because others have filled the quota."""
    ours = {"i-1": "g4dn.xlarge", "i-2": "g4dn.xlarge"}
    there = world(quota=8, running=ours, machines=list(ours))
    assert "have 8, used by others 0, need 8 vCPU" in made(there).text
    full = world(quota=8, running=RUNNING, machines=list(ours))
    assert len(made(full).every(INSTANCE)) == 2
    grown = world(quota=20, running={**ours, **RUNNING}, machines=list(ours))
    assert "have 20, used by others 12, need 12 vCPU" in denied(grown, count=3)


def test_a_request_has_room_for_what_others_use() -> None:
    small_quota = made(world(quota=16, running=RUNNING), quotas="request")
    assert small_quota.one(QUOTA).inputs["value"] == 20


def test_machines_that_cannot_be_counted_are_unknown() -> None:
    there = world(quota=8)
    there.answers = {**there.answers, "aws:ec2/getInstances:getInstances": refuse}
    cluster = made(there)
    assert "have 8, used by others unknown, need 8 vCPU" in cluster.text
    assert "ec2:DescribeInstances" in cluster.text
