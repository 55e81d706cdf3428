"""The budget of a run: when it is spent, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from bootstrap.clouds.base import Deadline, InstanceState
from bootstrap.costs import ledger
from bootstrap.costs.budget import hours_left, within
from bootstrap.costs.ledger import BilledMachine, Ledger, Start
from bootstrap.errors import UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.files import atomic_write
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.lifecycle.stop_policy import check_before_run, check_deadline, within_budget
from bootstrap.runs.launch import StopPolicy
from railhead.documents.cluster import ClusterPrice
from railhead.documents.codec import encode
from railhead.money import host
from railhead.money.bill import Price
from railhead.money.host import HostSpec, Part
from railhead.money.table import shipped

NOW = 1_795_000_000.0
HOSTS = (Host("m1", "a"), Host("m2", "b"))


def ours(region: str = "us-east-1", **spec: Any) -> Inventory:
    parts = host.parts_of(HostSpec("aws", region, "g4dn.xlarge", **spec), shipped("aws"))
    return Inventory("gpu", HOSTS, cloud="aws", stack="dev", price=host.documented(parts, 2))


def test_the_hours_of_a_budget_are_those_of_all_hosts_with_the_time_of_keeping() -> None:
    """12 / (2 x 0.541959) = 11.07 h, and 20 minutes less for the run."""
    policy = within_budget(ours(), StopPolicy(budget=12), NOW)
    assert policy.spent_at == pytest.approx(NOW + 11.0710 * 3600, abs=2)
    assert policy.from_now(NOW).max_hours == pytest.approx(11.0710 - 1 / 3, abs=0.001)
    kept = within_budget(ours(), StopPolicy(0, budget=12), NOW)
    assert kept.from_now(NOW).max_hours == pytest.approx(11.0710, abs=0.001)


def test_preparing_the_hosts_is_a_part_of_the_budget() -> None:
    policy = within_budget(ours(), StopPolicy(0, budget=12), NOW)
    assert policy.from_now(NOW + 3600).max_hours == pytest.approx(10.0710, abs=0.001)
    assert policy.from_now(NOW + 99 * 3600).max_hours == 0.01


def test_the_earlier_of_budget_and_max_hours_counts() -> None:
    assert within_budget(ours(), StopPolicy(max_hours=2, budget=12), NOW).max_hours == 2
    assert (within_budget(ours(), StopPolicy(max_hours=150, budget=12), NOW).max_hours or 99) < 11
    assert within_budget(ours(), StopPolicy(budget=900), NOW).from_now(NOW).max_hours == 168


def test_a_budget_for_ten_thousand_years_has_a_time() -> None:
    cheap = replace(ours(), price=ClusterPrice(0.01, "USD", "the stack's config", ""))
    policy = within_budget(cheap, StopPolicy(0, budget=1_000_000), NOW)
    end = datetime.fromtimestamp(policy.spent_at or 0, timezone.utc)
    assert (end - datetime.fromtimestamp(NOW, timezone.utc)).days == 366
    assert policy.from_now(NOW).max_hours == 168


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("policy", [StopPolicy(), StopPolicy(budget=200)])
def test_a_budget_asks_no_deadline_to_be_later(policy: StopPolicy, fixed: bool) -> None:
    """The run has 168 hours of its budget, and the cloud stops its machines after 8."""
    limited_policy = within_budget(limited(300), policy, NOW)
    assert limited_policy.max_hours is None and limited_policy.from_now(NOW).max_hours == 168
    now = datetime.fromtimestamp(NOW, timezone.utc)
    deadline = Deadline("its own", now + timedelta(hours=8), "armed", "GCE", fixed=fixed)
    assert check_deadline(deadline, limited_policy, now).endswith("8.0 h left")


def test_a_run_that_waits_is_ended_by_its_budget() -> None:
    named = replace(ours(), stack=None, cloud="hosts")
    policy = within_budget(named, StopPolicy(budget=12, on_stall="wait"), NOW)
    assert check_before_run(named, policy) == ""


def test_a_range_counts_at_its_higher_price() -> None:
    """12 / (2 x (0.216 + 0.015959))."""
    policy = within_budget(ours(spot=True), StopPolicy(0, budget=12), NOW)
    assert policy.from_now(NOW).max_hours == pytest.approx(25.866, abs=0.01)


def test_a_price_of_the_stacks_config_is_a_price() -> None:
    price = ClusterPrice(4.0, "USD", "the stack's config, price_per_hour", "")
    inventory = replace(ours(), price=price)
    assert within_budget(inventory, StopPolicy(0, budget=12), NOW).from_now(NOW).max_hours == 3


def test_without_a_budget_nothing_changes() -> None:
    assert within_budget(ours("eu-west-3"), StopPolicy(), NOW) == StopPolicy()


@pytest.mark.parametrize(
    ("inventory", "why"),
    [
        (ours("eu-west-3"), "unknown: price of g4dn.xlarge in eu-west-3"),
        (replace(ours(), price=None), "no price is recorded of gpu"),
        (
            replace(ours(), price=ClusterPrice(3.5, "EUR", "x", "")),
            "unknown: a price in EUR",
        ),
        (
            replace(ours(), price=ClusterPrice(None, "USD", "x", "")),
            "unknown: price of the machines",
        ),
    ],
)
def test_a_price_that_is_not_known_refuses_a_budget(inventory: Inventory, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        within_budget(inventory, StopPolicy(budget=12), NOW)


@pytest.mark.parametrize("dollars", [0.01, 0.46])
def test_a_budget_that_is_spent_before_a_run_can_begin_is_refused(dollars: float) -> None:
    """6 minutes and the 20 of keeping cost 0.47 USD."""
    with pytest.raises(
        UsageError, match=r"the machines cost 1.08 USD per hour.* at least 0.47 USD"
    ):
        within_budget(ours(), StopPolicy(budget=dollars), NOW)
    assert within_budget(ours(), StopPolicy(budget=0.48), NOW).spent_at


H = 3600.0


def ran(hours: float, **changes: Any) -> None:
    """The ledger of the stack: both machines ran for so many hours, a week ago."""
    begin = NOW - 168 * H
    machines = {
        name: BilledMachine(
            name,
            begin,
            begin + hours * H,
            (replace(Start(begin, begin, begin + hours * H), **changes),),
            ours().price.parts,  # type: ignore[union-attr]
        )
        for name in ("m1", "m2")
    }
    noted = Ledger("gpu", "dev", "aws", machines=machines)
    atomic_write(local_state.home() / "costs/c-1.json", json.dumps(encode(noted)))


def limited(budget: float = 12) -> Inventory:
    return replace(ours(), budget=budget, cluster_id="c-1")


def test_the_budget_of_a_stack_is_what_its_starts_have_left_of_it() -> None:
    """11.07 hours, of which 4 are spent."""
    assert hours_left(limited(), NOW) == pytest.approx(11.0710, abs=0.001)
    ran(4)
    assert hours_left(limited(), NOW) == pytest.approx(7.0710, abs=0.001)
    assert hours_left(ours(), NOW) is None


def test_a_start_gets_the_hours_that_are_left_and_not_more() -> None:
    ran(4)
    printed: list[str] = []
    assert within(limited(), 8, NOW, printed.append) == pytest.approx(7.0710, abs=0.001)
    assert printed == ["the budget of the stack leaves 7.1 of 8 hours"]
    assert within(limited(), 2, NOW, printed.append) == 2 and len(printed) == 1


def test_a_run_ends_with_the_budget_of_its_stack() -> None:
    ran(4)
    policy = within_budget(limited(), StopPolicy(0), NOW)
    assert policy.from_now(NOW).max_hours == pytest.approx(7.0710, abs=0.001)
    assert policy.spent_at == pytest.approx(NOW + 7.0710 * H, abs=5)
    of_run = within_budget(limited(), StopPolicy(0, budget=1), NOW).from_now(NOW)
    assert of_run.max_hours == pytest.approx(0.9226, abs=0.001)


def test_a_budget_that_is_spent_lets_nothing_start() -> None:
    ran(11)
    with pytest.raises(UsageError, match=r"12 USD, is spent: 11.92 USD so far"):
        hours_left(limited(), NOW)


def test_a_stop_that_nobody_saw_counts_at_its_latest_time() -> None:
    """A machine that powers itself off must not lock its stack."""
    ran(4, unsure=True)
    assert hours_left(limited(), NOW) == pytest.approx(7.0710, abs=0.001)


def test_the_price_that_the_hint_asks_for_prices_what_is_spent() -> None:
    """The machine ran for 4 hours at an unknown price, then somebody says: 1 USD for the two."""
    begin = NOW - 4 * H
    states = {h.name: InstanceState("running", None, "", "", started=begin) for h in HOSTS}
    hosts = tuple(replace(h, id=f"i-{h.name}") for h in HOSTS)
    unknown = replace(limited(), hosts=hosts, price=ours("eu-west-3").price)
    ledger.note(unknown, states, begin)
    with pytest.raises(UsageError, match="unknown: price of g4dn.xlarge in eu-west-3"):
        hours_left(unknown, NOW)
    each = Decimal("0.5")
    price = host.documented([Part(host.MACHINE, Price("x", each, each, "h", "", "config"))], 2)
    ledger.note(replace(unknown, price=price), states, NOW)
    assert hours_left(replace(unknown, price=price), NOW) == pytest.approx(8)
