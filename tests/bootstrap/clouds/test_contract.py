"""What every cloud does, for each cloud of the registry that has machines.

Only what is peculiar to one cloud is in a file of its own: test_aws.py, test_gcp.py, test_local.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from standins.sites import ID, SITES, CloudSite, Site

from bootstrap.clouds import base, storage
from bootstrap.clouds.base import MISSING, Deadline, Refused, most_urgent
from bootstrap.clouds.machines import Listed, list_machines, remove_deadlines, remove_leftovers
from bootstrap.errors import RailheadError, UsageError
from bootstrap.inventory.clouds import CLOUDS
from bootstrap.inventory.hosts import parse_hosts
from railhead.documents.clouds import COMMON_FACTS

IN_CLOUD = [name for name in SITES if CLOUDS[name].in_cloud]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB5pCFjpzH4qO6hFAT8JjnLtVmWjmyXzV9oE0iCk3WpX"


def opened(name: str) -> Iterator[Site]:
    for module in {"aws": ("boto3", "moto"), "gcp": ("googleapiclient",)}.get(name, ()):
        pytest.importorskip(module, reason="scripts/setup --dev installs it")
    with pytest.MonkeyPatch.context() as patch, SITES[name](patch) as site:
        yield site


@pytest.fixture(params=SITES)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """Each cloud, with two running machines."""
    yield from opened(request.param)


@pytest.fixture(params=IN_CLOUD)
def in_cloud(request: pytest.FixtureRequest) -> Iterator[Site]:
    """Each cloud that bills."""
    yield from opened(request.param)


def test_every_cloud_of_the_registry_is_held_to_the_contract() -> None:
    assert {*SITES} == {name for name, kind in CLOUDS.items() if kind.instances}


def test_ad_hoc_hosts_have_no_cloud() -> None:
    with pytest.raises(UsageError, match="--hosts") as caught:
        base.cloud_of(parse_hosts("a,b"))
    assert caught.value.code == 2


# --- States, start, stop and termination -------------------------------------------------------


def test_each_machine_has_a_state_and_its_address_of_now(site: Site) -> None:
    moved = [replace(host, address=f"moved-{n}") for n, host in enumerate(site.inventory.hosts)]
    states = site.cloud(replace(site.inventory, hosts=tuple(moved))).instance_states()
    assert tuple(states) == site.inventory.names
    for state in states.values():
        assert state.state == "running" and state.source and state.at
        assert state.address and not state.address.startswith("moved")
    assert len({state.address for state in states.values()}) == 2
    serials = {state.serial for state in states.values()}
    assert len(serials) == 2 if site.inventory.kind.in_cloud else serials == {""}


def test_machines_stop_and_start_and_a_second_request_changes_nothing(site: Site) -> None:
    cloud = site.cloud()
    before = {name: state.address for name, state in cloud.instance_states().items()}
    for change, state in ((cloud.stop, "stopped"), (cloud.start, "running")):
        change()
        requests = len(site.changes)
        change()
        assert site.states() == [state, state]
        change()
        assert len(site.changes) == requests
    if site.inventory.kind.this_machine:
        assert before == {name: state.address for name, state in cloud.instance_states().items()}


def test_machines_terminate_and_a_second_request_changes_nothing(site: Site) -> None:
    cloud = site.cloud()
    cloud.terminate()
    assert {*site.states()} == {"stopped" if site.inventory.kind.this_machine else "gone"}
    requests = len(site.changes)
    cloud.terminate()
    assert len(site.changes) == requests
    assert cloud.cannot_stop() == []


def test_a_machine_that_somebody_terminated_is_gone_and_spoils_no_other(site: Site) -> None:
    first, second = site.inventory.hosts
    site.states()  # AWS: the account that has the machines is known
    site.terminate(first)
    assert site.states() == ["gone", "running"]
    cloud = site.cloud()
    assert set(cloud.deadlines()) <= {second.name}
    assert all(first.name not in cost.description for cost in cloud.costs())
    cloud.stop()
    assert site.states() == ["gone", "stopped"]
    cloud.set_deadline(3)
    cloud.start()
    assert site.states() == ["gone", "running"]
    cloud.terminate()


@pytest.mark.parametrize("verb", ["stop", "terminate"])
def test_a_machine_that_cannot_be_changed_keeps_no_other_running(site: Site, verb: str) -> None:
    site.protect(site.inventory.chief)
    with pytest.raises(RailheadError):
        getattr(site.cloud(), verb)()
    first, second = site.states()
    assert first == "running" and second in ("stopped", "gone")


@pytest.mark.parametrize("reason", ["no capacity", "no right"])
def test_a_start_that_is_refused_names_the_way_out(in_cloud: CloudSite, reason: str) -> None:
    in_cloud.cloud().stop()
    assert in_cloud.states() == ["stopped", "stopped"]
    code = in_cloud.no_capacity if reason == "no capacity" else "UnauthorizedOperation"
    in_cloud.fill(code)
    with pytest.raises(Refused) as caught:
        in_cloud.cloud().start()
    assert code in caught.value.error_code
    facts = COMMON_FACTS[in_cloud.inventory.cloud]
    is_stock_out = any(known in code for known in facts.no_capacity)
    assert is_stock_out == (reason == "no capacity")
    assert caught.value.hint.startswith("fab start") == is_stock_out
    assert ("pulumi config set zones" in caught.value.hint) == is_stock_out
    zone = str(in_cloud.inventory.chief.zone)
    assert (f"free in {zone} now" in caught.value.message) == is_stock_out
    assert in_cloud.states() == ["stopped", "stopped"]


# --- Deadlines ---------------------------------------------------------------------------------


@pytest.mark.parametrize("site", ["local"], indirect=True)
def test_a_cloud_that_costs_nothing_has_no_deadline_and_no_costs(site: Site) -> None:
    cloud = site.cloud()
    cloud.set_deadline(1)
    assert (cloud.deadlines(), cloud.costs()) == ({}, [])


def hours_left(deadline: Deadline) -> float:
    assert deadline.state == "armed" and deadline.at, deadline
    return (deadline.at - datetime.now(timezone.utc)) / timedelta(hours=1)


def test_each_machine_has_a_deadline_that_can_be_moved(in_cloud: CloudSite) -> None:
    cloud = in_cloud.cloud()
    before = cloud.deadlines()
    assert tuple(before) == in_cloud.inventory.names
    assert all(0.5 < hours_left(deadline) < 4 for deadline in before.values())
    for hours in (0, -1, 169):
        with pytest.raises(UsageError, match="at most 168"):
            cloud.set_deadline(hours)
    cloud.stop()
    in_cloud.settle()
    cloud.set_deadline(5.5)
    cloud.start()
    in_cloud.settle()
    after = cloud.deadlines()
    assert tuple(after) == in_cloud.inventory.names
    assert all(abs(hours_left(deadline) - 5.5) < 0.02 for deadline in after.values())


def test_a_deadline_that_somebody_removed_is_missing_and_the_most_urgent(
    in_cloud: CloudSite,
) -> None:
    first, second = in_cloud.inventory.hosts
    in_cloud.remove_deadline(second)
    deadlines = in_cloud.cloud().deadlines()
    assert {name: deadline.state for name, deadline in deadlines.items()} == {
        first.name: "armed",
        second.name: MISSING,
    }
    assert most_urgent(deadlines.values()) == deadlines[second.name]


# --- Costs, the owner, host keys and firewalls -------------------------------------------------


def test_disks_and_the_bucket_are_billed_while_machines_are_stopped(in_cloud: CloudSite) -> None:
    for size in (1 << 20, 2 << 20):  # both versions are billed
        in_cloud.put(size)
    in_cloud.cloud().stop()
    in_cloud.settle()
    *disks, bucket = in_cloud.cloud().costs()
    assert len(disks) == 2
    for disk, name in zip(disks, in_cloud.inventory.names, strict=True):
        assert f" of {name}, " in disk.description and disk.per == "day"
        assert "--with-bucket" not in str(disk.command)
    assert "2 objects with their old versions" in bucket.description
    assert in_cloud.inventory.bucket and in_cloud.inventory.bucket in bucket.description
    assert bucket.per == "month" and "--with-bucket" in str(bucket.command)
    price = {"aws": 0.023, "gcp": 0.020}[in_cloud.inventory.cloud]
    assert bucket.amount == pytest.approx((3 << 20) / storage.GB * price)


def test_the_cloud_says_when_its_machines_started_and_stopped(in_cloud: CloudSite) -> None:
    before = in_cloud.cloud().instance_states()
    in_cloud.cloud().stop()
    in_cloud.settle()
    after = in_cloud.cloud().instance_states()
    for name, state in after.items():
        started, stopped = before[name].started, state.stopped
        assert started and stopped and stopped >= started and state.started == started


def test_a_bucket_that_is_gone_or_not_there_costs_nothing(in_cloud: CloudSite) -> None:
    scheme = CLOUDS[in_cloud.inventory.cloud].scheme
    for bucket in (None, f"{scheme}://railhead-gone"):
        cloud = in_cloud.cloud(replace(in_cloud.inventory, bucket=bucket))
        assert [cost.per for cost in cloud.costs()] == ["day", "day"]


def test_the_owner_of_the_machines_is_named(site: Site) -> None:
    assert site.cloud().account() == site.account


def test_host_keys_that_are_not_there_yet_are_missing(site: Site) -> None:
    second = site.inventory.hosts[1]
    site.show_key(second, KEY)
    assert site.cloud().host_keys() == {second.name: (KEY,)}


def test_the_networks_that_may_connect_are_those_of_the_firewall(site: Site) -> None:
    assert site.cloud().allowed_cidrs() == site.networks


# --- Lists of machines -------------------------------------------------------------------------


def test_the_list_has_the_machines_with_our_tags(site: Site) -> None:
    listed = list_machines(site.place)
    if not site.inventory.kind.machines:
        assert listed == Listed("", ())
        return
    assert listed.account == site.account
    hosts = site.inventory.hosts
    assert {machine.id for machine in listed.machines} == {host.id for host in hosts}
    for machine in listed.machines:
        assert (machine.state, machine.cluster_id, machine.stack) == ("running", ID, "g4dn")
        assert machine.address and machine.peer_address and machine.cluster
        assert machine.id.rpartition("/")[2] in machine.end
    site.terminate(hosts[0])
    assert [machine.id for machine in list_machines(site.place).machines] == [hosts[1].id]


def test_a_cloud_without_leftovers_or_schedules_removes_none(site: Site) -> None:
    kind, name = site.inventory.kind, site.inventory.name
    assert remove_deadlines(site.place, name, []) == []
    assert kind.leftovers or remove_leftovers(site.place, ID) == []
    assert kind.deadlines or remove_deadlines(site.place, name, ["x"]) == []


# --- Credentials and SDKs ----------------------------------------------------------------------


def test_without_credentials_the_login_is_named(in_cloud: CloudSite) -> None:
    in_cloud.log_out()
    with pytest.raises(UsageError, match="call failed") as caught:
        in_cloud.cloud().instance_states()
    assert caught.value.code == 2 and "login" in caught.value.hint


def test_without_its_sdk_the_set_up_is_named(
    in_cloud: CloudSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_cloud.log_out()
    monkeypatch.setitem(sys.modules, in_cloud.sdk, None)
    with pytest.raises(UsageError, match="not installed") as caught:
        in_cloud.cloud().instance_states()
    assert (caught.value.code, caught.value.hint) == (2, "scripts/setup --stacks")
