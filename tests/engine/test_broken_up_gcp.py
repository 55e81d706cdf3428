"""A `pulumi up` on Google Cloud that breaks off: the real engine, the real `fab`, stand-ins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from draws import drawn
from engine.gcp import OnGcp, fresh
from engine.kills import kill_up

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
STOCK_OUT = "ZONE_RESOURCE_POOL_EXHAUSTED: the zone does not have enough resources available"
ACCOUNT = "gcp:serviceaccount/account:Account"
DESTROY = ("teardown", "--destroy", "--yes", "--stack", "t4")


@pytest.fixture
def gcp(engine: Path, tmp_path: Path) -> Iterator[OnGcp]:
    with fresh(engine, tmp_path) as made:
        yield made


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


def test_a_stack_breaks_off_is_resized_breaks_off_and_is_destroyed(gcp: OnGcp) -> None:
    check_stop_and_teardown_work_without_an_output(gcp)
    check_a_resize_that_breaks_off_is_known_to_all(gcp)
    check_a_machine_in_no_state_is_named_and_ended_and_that_of_others_is_not(gcp)


def check_stop_and_teardown_work_without_an_output(gcp: OnGcp) -> None:
    gcp.cloud.refuse, gcp.cloud.refuse_after = {"t4-2": STOCK_OUT}, 1
    gcp.stack.up().ended(1)
    assert gcp.instances() == ["t4-1"] and len(gcp.running()) == 1
    gcp.stack.fab("start", "--stack", "t4").ended(2, "broke off", "fab up --stack t4")
    gcp.stack.fab("stop", "--stack", "t4").ended(0, "[t4-1] stopped")
    assert gcp.instances() == ["t4-1"] and not gcp.running()
    gcp.stack.fab("teardown", "--stack", "t4").ended(0, "it costs nothing by the hour")
    gcp.cloud.refuse.clear()
    gcp.stack.up().ended(0)
    assert gcp.instances() == ["t4-1", "t4-2"]


def check_a_resize_that_breaks_off_is_known_to_all(gcp: OnGcp) -> None:
    gcp.cloud.refuse, gcp.cloud.refuse_after = {"t4-4": STOCK_OUT}, 3
    gcp.stack.config(count=4).up().ended(1)
    assert len(gcp.stack.output()["cluster"]["hosts"]) == 2
    assert gcp.instances() == ["t4-1", "t4-2", "t4-3"]
    gcp.check_deadlines()
    receipt = gcp.stack.fab("teardown", "--stack", "t4").ended(0)
    assert receipt.text.count("stopped (Compute Engine") == 3, receipt.text
    assert gcp.instances() == ["t4-1", "t4-2", "t4-3"] and not gcp.running()


def check_a_machine_in_no_state_is_named_and_ended_and_that_of_others_is_not(gcp: OnGcp) -> None:
    """As SIGKILL of Pulumi leaves one; the name of a machine is unique in a project and zone."""
    made, *_ = gcp.cloud.compute.instances
    labels = gcp.cloud.compute.instances[made]["labels"]
    zone = made.rpartition("/")[0]
    interface = {"networkIP": "10.164.0.9", "accessConfigs": [{"natIP": "198.51.100.9"}]}
    gcp.cloud.compute.add(f"{zone}/t4-9", labels=labels, networkInterfaces=[interface])
    theirs = {**labels, "railhead-id": "ffffffffffff"}
    gcp.cloud.compute.add(f"{zone}/t4-8", labels=theirs)
    status = gcp.stack.fab("status", "--stack", "t4").text
    assert "in no state of Pulumi, with this stack's id: t4-9" in status, status
    assert "which no command of this stack ends:\n  t4-8" in status
    gcp.stack.fab(*DESTROY).ended(0, "machine t4-9")
    assert gcp.instances() == ["t4-8"] and gcp.stack.resources() == [] and not gcp.cloud.things


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
