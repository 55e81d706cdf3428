"""A `pulumi up` on Google Cloud that breaks off: the real engine, the real `fab`, stand-ins."""

from __future__ import annotations

import pytest
from draws import drawn
from engine.gcp import OnGcp

from campaigns.kills import kill_up

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
STOCK_OUT = "ZONE_RESOURCE_POOL_EXHAUSTED: the zone does not have enough resources available"
ACCOUNT = "gcp:serviceaccount/account:Account"
DESTROY = ("teardown", "--destroy", "--yes", "--stack", "t4")


def test_an_up_without_capacity_is_named_and_ended(gcp: OnGcp) -> None:
    gcp.cloud.refuse, gcp.cloud.refuse_after = {f"t4-{drawn([1, 2])}": STOCK_OUT}, 1
    gcp.stack.up().ended(1, "fab teardown --destroy --stack t4", "no n1-standard-8 free")
    (left,) = gcp.instances()
    status = gcp.stack.fab("status", "--stack", "t4")
    assert f"[{left}] running" in status.text and "project p-12345" in status.text, status.text
    assert "broke off" in status.text and "Traceback" not in status.text
    assert f"[{left}] deadline max-run-duration: armed" in status.text, status.text
    assert f"[{left}] deadline timer: not read: " in status.text, status.text
    (machine,) = gcp.cloud.compute.instances.values()
    assert machine["scheduling"]["maxRunDuration"] and "startup-script" in str(machine["metadata"])
    gcp.stack.fab(*DESTROY).ended(0, "Receipt for stack t4")
    assert gcp.instances() == [] and gcp.stack.resources() == [] and not gcp.cloud.things


def test_a_service_account_that_a_killed_up_left_is_taken_over(gcp: OnGcp) -> None:
    """Google would refuse another with its name."""
    gcp.stack.config(bucket=True, count=1)
    kill_up(gcp, f"after create {ACCOUNT}")
    (left,) = gcp.cloud.every(ACCOUNT)
    assert not [one for one in gcp.stack.resources() if one["type"] == ACCOUNT]
    gcp.stack.run("cancel", "--yes", "--stack", "t4")
    gcp.stack.fab("up", "--yes", "--stack", "t4").ended(0)
    assert list(gcp.cloud.every(ACCOUNT)) == [left] and gcp.instances() == ["t4-1"]
    gcp.stack.destroy().ended(0)
    assert not gcp.cloud.every(ACCOUNT)
