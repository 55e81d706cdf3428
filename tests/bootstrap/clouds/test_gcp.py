"""What is peculiar to Google Cloud: its words for states, operations, deadlines and retries.

test_contract.py has what every cloud does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from places import CASES

requests = pytest.importorskip("requests", reason="scripts/setup --stacks installs it")
pytest.importorskip("googleapiclient", reason="scripts/setup --dev installs it")

from standins.gcp.compute import Compute  # noqa: E402
from standins.gcp.discovery import document  # noqa: E402

from bootstrap.clouds.base import MISSING, Refused, most_urgent  # noqa: E402
from bootstrap.clouds.gcp.client import GoogleClient  # noqa: E402
from bootstrap.clouds.gcp.instances import Gcp  # noqa: E402
from bootstrap.clouds.gcp.machines import list_machines  # noqa: E402
from bootstrap.clouds.machines import Place  # noqa: E402
from bootstrap.console.wait import Clock  # noqa: E402
from bootstrap.errors import RailheadError, UsageError  # noqa: E402
from bootstrap.host.buckets import repeats  # noqa: E402
from bootstrap.inventory.document import from_document  # noqa: E402
from bootstrap.inventory.hosts import Inventory  # noqa: E402

GOLDEN = from_document(json.loads((CASES / "documents/cluster-gcp.json").read_text()))
PATH = GOLDEN.chief.id or ""
SECOND = PATH.replace("t4-1", "t4-2")
STOCK_OUT = {
    "code": "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
    "message": "The zone does not have enough resources available to fulfill the request.",
    "errorDetails": [
        {"errorInfo": {"metadatas": {"zonesAvailable": "europe-west4-a,europe-west4-c"}}}
    ],
}


@pytest.fixture
def compute() -> Iterator[Compute]:
    """A project with the golden machine in it."""
    cloud = Compute()
    cloud.add(PATH)
    with cloud.served():
        yield cloud


class Time:
    """A clock whose time passes by waiting alone."""

    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> Clock:
        return Clock(lambda: self.now, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def gcp(compute: Compute, inventory: Inventory = GOLDEN) -> Gcp:
    return Gcp(inventory, GoogleClient(requests.Session(), compute=compute.base), Time().clock())


def with_second(compute: Compute) -> Inventory:
    """The golden inventory with a second machine."""
    compute.add(SECOND)
    second = replace(GOLDEN.chief, name="gcp-t4-2", id=SECOND, address="198.51.100.9")
    return replace(GOLDEN, hosts=(GOLDEN.chief, second))


def machine(compute: Compute) -> dict[str, Any]:
    return compute.instances[PATH]


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("PENDING", "starting"), ("PROVISIONING", "starting"), ("STAGING", "starting"),
        ("RUNNING", "running"), ("PENDING_STOP", "stopping"), ("STOPPING", "stopping"),
        ("STOPPED", "stopped"), ("TERMINATED", "stopped"), ("SUSPENDED", "stopped"),
        ("SUSPENDING", "stopping"), ("REPAIRING", "starting"), ("DEPROVISIONING", "stopping"),
        ("A_NEW_WORD", "unknown"),
    ],
)  # fmt: skip
def test_every_word_of_compute_is_a_state(compute: Compute, status: str, state: str) -> None:
    machine(compute)["status"] = status
    assert gcp(compute).instance_states()["gcp-t4-1"].state == state


@pytest.mark.parametrize("how", ["unreachables", "warned"])
def test_a_list_without_the_machines_of_a_zone_does_not_count_as_whole(
    compute: Compute, how: str
) -> None:
    """A teardown would report that none is left. A warning is on the last of several pages."""
    machine(compute)["labels"] = {"railhead-cluster": "t4"}
    paths = [PATH, *(PATH.replace("/zones/", f"/zones/{name}-") for name in ("x", "y"))]
    for path in paths[1:]:
        compute.add(path, labels={"railhead-cluster": "t4"})
    place = Place("gcp", project=PATH.split("/")[1])
    client = GoogleClient(requests.Session(), compute=compute.base)
    assert [listed.id for listed in list_machines(place, client).machines] == paths
    zone = PATH.partition("/instances/")[0].partition("/zones/")[2]
    setattr(compute, how, (f"zones/{zone}",))
    with pytest.raises(RailheadError, match=f"does not reach zones/{zone}"):
        list_machines(place, client)


def test_machines_are_listed_from_all_pages_without_those_of_others(compute: Compute) -> None:
    """Three pages in two zones; a machine without our label is on none."""
    machine(compute)["labels"] = {"railhead-cluster": "t4"}
    folder, _, zone = PATH.rpartition("/")[0].rpartition("/instances")[0].rpartition("/")
    more = [f"{folder}/{zone}/instances/b", f"{folder}/other1-a/instances/c"]
    for path in more:
        compute.add(path, labels={"railhead-cluster": "t4"})
    compute.add(f"{folder}/{zone}/instances/of-others", labels={"owner": "bo"})
    place = Place("gcp", project=PATH.split("/")[1])
    client = GoogleClient(requests.Session(), compute=compute.base)
    assert [listed.id for listed in list_machines(place, client).machines] == [PATH, *more]


def test_no_word_of_compute_was_forgotten() -> None:
    from bootstrap.clouds.gcp.compute import STATES

    assert set(STATES) == set(
        document("compute").schemas["Instance"]["properties"]["status"]["enum"]
    )


def test_the_address_is_the_one_that_compute_reports_now(compute: Compute) -> None:
    state = gcp(compute).instance_states()["gcp-t4-1"]
    assert (state.address, state.serial) == ("198.51.100.99", "4711")
    inside = replace(GOLDEN, hosts=(replace(GOLDEN.chief, address="10.164.0.8"),))
    assert gcp(compute, inside).instance_states()["gcp-t4-1"].address == "10.164.0.8"


def test_a_field_that_is_not_there_yet_is_no_error(compute: Compute) -> None:
    compute.instances[PATH] = {"status": "PROVISIONING"}
    state = gcp(compute).instance_states()["gcp-t4-1"]
    assert (state.state, state.address) == ("starting", None)
    deadline = most_urgent(gcp(compute).deadlines().values())
    assert deadline and deadline.state == MISSING


def test_a_machine_is_gone_when_its_project_reports_so_and_not_when_it_refuses(
    compute: Compute,
) -> None:
    compute.instances.clear()
    assert gcp(compute).instance_states()["gcp-t4-1"].state == "gone"
    compute.denied = (403, "forbidden")
    with pytest.raises(Refused, match="Google refuses GET projects/p-1") as caught:
        gcp(compute).instance_states()
    assert caught.value.error_code == "forbidden"


def test_a_stock_out_names_the_zones_that_have_room(compute: Compute) -> None:
    machine(compute)["status"] = "TERMINATED"
    compute.errors = {"gcp-t4-1": STOCK_OUT}
    with pytest.raises(Refused, match="no such machine free in europe-west4-b now") as caught:
        gcp(compute).start()
    assert "free now: europe-west4-a,europe-west4-c" in caught.value.message
    assert "pulumi config set zones" in caught.value.hint


def test_another_error_of_an_operation_is_reported_as_it_is(compute: Compute) -> None:
    machine(compute)["status"] = "TERMINATED"
    compute.errors = {"gcp-t4-1": {"code": "QUOTA_EXCEEDED", "message": "Quota 'GPUS_ALL_REGIONS'"}}
    with pytest.raises(Refused, match="QUOTA_EXCEEDED: Quota 'GPUS_ALL_REGIONS'"):
        gcp(compute).start()


@pytest.mark.parametrize("refused", ["the operation", "the call"])
def test_a_start_that_fails_ends_when_every_machine_has_started_or_failed(
    compute: Compute, refused: str
) -> None:
    """Until then Compute shows a machine as TERMINATED, and the stop that follows leaves it out."""
    both = with_second(compute)
    for instance in compute.instances.values():
        instance["status"] = "TERMINATED"
    if refused == "the operation":
        compute.errors = {"gcp-t4-1": STOCK_OUT}
    else:
        compute.protected = {SECOND}
    compute.slow = 3
    with pytest.raises(Refused):
        gcp(compute, both).start()
    assert {operation["status"] for operation in compute.operations.values()} == {"DONE"}


def test_an_operation_that_does_not_end_is_given_up(compute: Compute) -> None:
    machine(compute)["status"] = "TERMINATED"
    compute.slow = 10**6
    with pytest.raises(Exception, match="does not end"):
        gcp(compute).start()
    assert len(compute.requests) < 400


# --- The deadline ------------------------------------------------------------------------------


def test_a_running_machines_deadline_is_its_start_and_its_length(compute: Compute) -> None:
    deadline = most_urgent(gcp(compute).deadlines().values())
    assert deadline and deadline.at
    remaining = deadline.at - datetime.now(timezone.utc)
    assert abs(remaining - timedelta(hours=3)) < timedelta(seconds=30)
    assert (deadline.state, deadline.reason) == ("armed", "4 h from each start")
    moment = "2026-01-01T12:00:00-08:00"
    machine(compute)["resourceStatus"] = {"scheduling": {"terminationTimestamp": moment}}
    deadline = most_urgent(gcp(compute).deadlines().values())
    assert deadline
    assert deadline.at == datetime(2026, 1, 1, 20, tzinfo=timezone.utc)
    assert deadline.state == "past"


def test_a_stopped_machines_deadline_begins_with_its_start(compute: Compute) -> None:
    machine(compute)["status"] = "TERMINATED"
    deadline = most_urgent(gcp(compute).deadlines().values())
    assert deadline and (deadline.state, deadline.at) == ("armed", None)


@pytest.mark.parametrize("gone", ["maxRunDuration", "instanceTerminationAction"])
def test_a_deadline_that_was_taken_away_is_missing(compute: Compute, gone: str) -> None:
    del machine(compute)["scheduling"][gone]
    deadline = most_urgent(gcp(compute).deadlines().values())
    assert deadline and (deadline.state, deadline.reason) == (MISSING, "gcp-t4-1 has none")


def test_a_deadline_moves_only_while_the_machine_is_stopped(compute: Compute) -> None:
    with pytest.raises(UsageError, match="can only change while a machine is stopped") as caught:
        gcp(compute).set_deadline(6)
    assert caught.value.hint == "fab stop, then fab start --hours 6"
    gcp(compute).set_deadline(4)  # as it is
    machine(compute)["status"] = "TERMINATED"
    gcp(compute).set_deadline(6)
    assert machine(compute)["scheduling"] == {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
        "instanceTerminationAction": "STOP",
        "maxRunDuration": {"seconds": "21600"},
    }
    del machine(compute)["scheduling"]["instanceTerminationAction"]  # by somebody else
    gcp(compute).set_deadline(6)
    assert machine(compute)["scheduling"]["instanceTerminationAction"] == "STOP"
    with pytest.raises(UsageError, match="at most 168"):
        gcp(compute).set_deadline(200)


def test_a_machine_with_local_ssds_stops_and_its_deadline_stops_it(compute: Compute) -> None:
    both = with_second(compute)
    machine(compute)["disks"] = [{"type": "PERSISTENT"}, {"type": "SCRATCH"}]
    kept, armed = gcp(compute, both).deadlines().values()
    assert (kept.state, armed.state) == (MISSING, "armed") and "local SSDs" in kept.reason
    gcp(compute, both).stop()
    assert {instance["status"] for instance in compute.instances.values()} == {"STOPPING"}
    compute.settle()
    gcp(compute, both).set_deadline(6)
    assert machine(compute)["scheduling"]["onInstanceStopAction"] == {"discardLocalSsd": True}
    assert "onInstanceStopAction" not in compute.instances[SECOND]["scheduling"]
    assert {deadline.state for deadline in gcp(compute, both).deadlines().values()} == {"armed"}


# --- Keys, costs, whose ------------------------------------------------------------------------


def test_host_keys_are_read_from_guest_attributes_when_they_are_there(compute: Compute) -> None:
    assert gcp(compute).host_keys() == {}
    items = [{"namespace": "hostkeys", "key": "ssh-ed25519", "value": "AAAAC3Nz"}]
    compute.attributes[PATH] = items
    assert gcp(compute).host_keys() == {"gcp-t4-1": ("ssh-ed25519 AAAAC3Nz",)}


def test_what_bills_while_stopped_are_the_disks(compute: Compute) -> None:
    disk = "https://www.googleapis.com/compute/v1/projects/p-1/zones/europe-west4-b/disks/gcp-t4-1"
    machine(compute)["disks"] = [{"source": disk}, {"type": "SCRATCH"}]
    cloud = gcp(compute)
    (cost,) = cloud.costs()
    assert cost.description == "disk gcp-t4-1 of gcp-t4-1, 100 GB pd-ssd"
    assert cost.amount == pytest.approx(100 * 0.187 * 24 / 730)
    cloud.inventory = replace(cloud.inventory, region="europe-west6")
    assert [cost.amount for cost in cloud.costs()] == [None]  # the table has no price of the region


def test_the_project_is_reported_without_a_question(compute: Compute) -> None:
    assert gcp(compute).account() == "project p-1"
    assert compute.requests == []


def test_an_id_of_another_shape_is_refused(compute: Compute) -> None:
    odd = replace(GOLDEN, hosts=(replace(GOLDEN.chief, id="gcp-t4-1"),))
    with pytest.raises(UsageError, match="is not projects/PROJECT/zones/ZONE/instances/NAME"):
        gcp(compute, odd)


def test_every_call_to_google_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "_limit", ContextVar("limit", default=(0.0, None)))
    limits: list[Any] = []

    class Session:
        def request(self, method: str, address: str, **options: Any) -> Any:
            limits.append(options.get("timeout"))
            raise requests.Timeout("no answer")

    client = GoogleClient(Session())
    with pytest.raises(RailheadError, match="no answer"):
        client("POST", "projects/p")
    with pytest.raises(RailheadError, match="no answer"):
        list(client.read("https://storage.googleapis.com/b/o"))
    assert len(limits) == 2 and all(limit and 0 < limit <= 60 for limit in limits)
