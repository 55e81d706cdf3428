"""What another config changes in a stack that exists, by the schema of AWS's provider."""

from __future__ import annotations

import pytest

from tests.stacks.aws.world import made, world
from tests.stacks.changes import changes
from tests.stacks.mocks import STASH


@pytest.fixture(autouse=True)
def same_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a stack that keeps them: not another random end in each preview."""
    monkeypatch.setattr("secrets.token_hex", lambda count: "0a" * count)


HOSTS = ("Instance cluster-host-1", "Instance cluster-host-2")


@pytest.mark.parametrize(("before", "after"), [(False, True), (True, False)])
def test_another_spot_replaces_the_machines(before: bool, after: bool) -> None:
    """For the provider, market options that are left out change nothing: EC2 would then be sent the
    other shutdown behavior alone, which it refuses for spot machines."""
    done = changes(made(spot=before, bucket=False), made(spot=after, bucket=False))
    assert {done.get(host) for host in HOSTS} == {"replace"}


def test_the_role_of_the_deadlines_stays_the_same_whatever_spot_is() -> None:
    """An `up` that breaks off in between leaves schedules that can act."""
    done = changes(made(spot=True, bucket=False), made(spot=False, bucket=False))
    assert "RolePolicy cluster-deadline" not in done


@pytest.mark.parametrize(
    ("spot", "family", "operation"),
    [(False, "g4dn.*", "update"), (False, "g5.*", "replace"), (True, "g4dn.*", "replace")],
    ids=["one family", "another family", "spot"],
)
def test_another_machine_type_is_changed_in_place_only_where_ec2_does_that(
    spot: bool, family: str, operation: str
) -> None:
    """Before it refuses another family, the provider has stopped the machine."""
    before = made(machine_type="g4dn.xlarge", spot=spot, bucket=False)
    there = world(machines=["i-1", "i-2"], family=family)
    after = made(there, machine_type="g4dn.2xlarge", spot=spot, bucket=False)
    done = changes(before, after)
    assert {done.get(host) for host in HOSTS} == {operation}


def test_what_an_up_must_not_do_is_checked_before_it_does_it() -> None:
    """A second machine of one number, a smaller disk, another place or account of the stack."""
    stack = made()
    for machine in stack.every("aws:ec2/instance:Instance"):
        checks = {"before_create": ("cluster-machine",), "before_update": ("cluster-change",)}
        assert machine.hooks == checks
    stashes = {stash.name: stash.hooks for stash in stack.every(STASH)}
    for name in ("cluster-place", "cluster-account"):
        assert stashes[name] == dict.fromkeys(("before_create", "before_update"), (name,))


def test_a_later_config_changes_no_schedule() -> None:
    """An update would send the time that Pulumi's state has, and `fab extend` has moved it."""
    before = made(deadline_hours=5, disk_gb=100, bucket=False)
    done = changes(before, made(deadline_hours=9, disk_gb=200, bucket=False))
    assert done["Instance cluster-host-1"] == "update"
    assert not [name for name in done if name.startswith("Schedule ")]
