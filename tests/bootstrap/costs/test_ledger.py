"""When machines ran, from what their cloud says whenever a command looks, and the bill of it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from bootstrap.clouds.base import InstanceState, SpotOffer
from bootstrap.costs import ledger
from bootstrap.costs.bill import (
    History,
    Period,
    cost_of,
    covered,
    hours,
    idle_seconds,
    moment,
    per_hour,
)
from bootstrap.costs.ledger import BilledMachine, Ledger, Start, observed
from bootstrap.inventory.hosts import Host, Inventory
from railhead.money import host
from railhead.money.bill import Price, Step
from railhead.money.host import HostSpec, Part
from railhead.money.table import shipped

H = 3600.0
T0 = 1_760_000_000.0
PRICE = host.documented(
    host.parts_of(HostSpec("aws", "us-east-1", "g4dn.xlarge"), shipped("aws")), 1
)
UNKNOWN = host.documented(
    host.parts_of(HostSpec("aws", "eu-west-3", "g4dn.xlarge"), shipped("aws")), 1
)


def state(name: str, started: float | None = None, stopped: float | None = None) -> InstanceState:
    """As the cloud reports it; times in hours."""
    times = [None if hour is None else T0 + hour * H for hour in (started, stopped)]
    return InstanceState(name, None, "EC2", "", started=times[0], stopped=times[1], created=T0)


def after(*looks: tuple[float, InstanceState]) -> BilledMachine:
    machine: BilledMachine | None = None
    for hour, look in looks:
        machine = observed(machine, "m1", look, T0 + hour * H)
    assert machine
    return replace(machine, parts=PRICE.parts)


def times(machine: BilledMachine) -> list[tuple[float, float | None]]:
    """The starts and ends, in hours."""
    return [
        ((s.at - T0) / H, None if s.until is None else (s.until - T0) / H) for s in machine.starts
    ]


def bill(machine: BilledMachine, since: float, until: float) -> str:
    noted = Ledger("gpu", "dev", "aws", machines={"i-1": machine})
    return str(cost_of(noted, Period(T0 + since * H, T0 + until * H)))


def test_the_times_are_the_clouds_not_those_of_the_looks() -> None:
    machine = after((2, state("running", 0)), (5, state("stopped", 0, 3.5)))
    assert times(machine) == [(0, 3.5)]
    assert bill(machine, 0, 5) == "1.91 USD"  # 3.5 x 0.531 + 5 x 100 x 0.08 / 730


def test_two_starts_that_were_both_seen() -> None:
    machine = after(
        (1, state("running", 0)),
        (3, state("stopped", 0, 2)),
        (6, state("running", 5, 2)),
    )
    assert times(machine) == [(0, 2), (5, None)]
    assert bill(machine, 0, 7) == "2.20 USD"  # 4 x 0.531 + 7 x 0.010959


def test_a_stop_that_nobody_saw_is_known_where_the_cloud_keeps_it() -> None:
    """Google reports the last stop beside the last start."""
    assert times(after((1, state("running", 0)), (6, state("running", 5, 2)))) == [
        (0, 2),
        (5, None),
    ]


def test_a_stop_of_an_earlier_start_does_not_end_a_later_one() -> None:
    """The start at 5 has ended unseen, and the last stop that the cloud keeps is the one at 2."""
    machine = after(
        (1, state("running", 0)), (6, state("running", 5, 2)), (10, state("running", 9, 2))
    )
    assert times(machine) == [(0, 2), (5, 9), (9, None)]
    assert [start.unsure for start in machine.starts] == [False, True, False]


def test_a_stop_that_nobody_knows_makes_a_range() -> None:
    """It was seen after 1 hour, and the next start is at 5: the first hour is certain."""
    machine = after((1, state("running", 0)), (6, state("running", 5)))
    assert bill(machine, 0, 6) == "1.13 to 3.25 USD"  # 2 or 6 x 0.531, and the disk
    assert bill(machine, 5, 6) == "0.54 USD"
    assert bill(machine, 2, 4) == "0.02 to 1.08 USD"
    assert bill(replace(machine, parts=UNKNOWN.parts), 2, 4).startswith("unknown: price of g4")


def test_a_stop_without_a_time_is_between_two_looks() -> None:
    machine = after((1, state("running", 0)), (2, state("running", 0)), (4, state("stopped", 0)))
    assert times(machine) == [(0, 4)] and machine.starts[0].unsure
    assert bill(machine, 0, 4) == "1.11 to 2.17 USD"


def test_a_machine_that_was_started_by_hand_counts_from_its_start() -> None:
    """The first look is at 30 h, at a machine that a person started at 26 h."""
    machine = after((30, state("running", 26)))
    assert times(machine) == [(26, None)]
    assert bill(machine, 0, 30) == "2.45 USD"  # 4 x 0.531 + 30 x 0.010959


def test_the_first_minute_of_each_start_is_billed_as_a_whole() -> None:
    """Ten starts of 20 seconds: 10 x 0.526 / 60, and the disk for 11 hours."""
    starts = [(hour, hour + 20 / 3600) for hour in range(10)]
    looks = [(end, state("stopped", hour, end)) for hour, end in starts]
    assert bill(after(*looks), 0, 11) == "0.21 USD"


@pytest.mark.parametrize(
    ("gone", "hours", "cost"),
    [
        (state("gone"), 50, "1.08 USD"),  # 0.531 + 50 x 0.010959
        (state("gone", 0, 20), 20, "0.75 USD"),  # the cloud says when
    ],
)
def test_a_disk_costs_until_its_machine_is_gone(
    gone: InstanceState, hours: float, cost: str
) -> None:
    machine = after((1, state("running", 0)), (2, state("stopped", 0, 1)), (50, gone))
    assert machine.deleted == T0 + hours * H
    assert bill(machine, 0, 800) == cost


def test_a_machine_that_was_never_seen_costs_nothing() -> None:
    assert observed(None, "m1", state("gone"), T0) is None
    assert observed(None, "m1", state("unknown"), T0) is None


def test_what_is_unknown_changes_nothing() -> None:
    before = after((1, state("running", 0)))
    assert observed(before, "m1", state("unknown"), T0 + 9 * H) == before


def test_a_clock_behind_the_clouds_makes_no_negative_time() -> None:
    """This computer is at 1 h; the cloud says it started at 1.5 h."""
    assert bill(after((1, state("running", 1.5))), 0, 1) == "0.01 USD"  # of the disk


OFFER = SpotOffer("g4dn.xlarge", "us-east-1a")


def steps(*changes: tuple[float, str]) -> History:
    """The price of the spot machine from so many hours on."""
    return {
        OFFER: [
            Step(moment(T0 + hour * H), Price("spot", Decimal(usd), Decimal(usd), "h", "", ""))
            for hour, usd in changes
        ]
    }


def spot_bill(history: History, *looks: tuple[float, InstanceState], until: float = 10) -> str:
    """The bill of a spot machine without a disk and an address; 0.1 to 0.9 is noted."""
    price = Price("range", Decimal("0.1"), Decimal("0.9"), "h", "", "")
    parts = host.documented([Part(host.MACHINE, price)], 1).parts
    seen = [(hour, replace(one, spot=OFFER)) for hour, one in looks]
    one = replace(after(*seen), parts=parts)
    noted = Ledger("gpu", "dev", "aws", machines={"i-1": one})
    return str(cost_of(noted, Period(T0, T0 + until * H), history))


def test_a_spot_machine_costs_what_its_zone_cost_at_each_time() -> None:
    """From 1 to 6 h: 2 h at 0.20, 3 h at 0.30; the steps of another zone are not its own."""
    ended = state("stopped", 1, 6)
    history = steps((0, "0.20"), (3, "0.30"), (7, "5.00"))
    assert spot_bill(history, (2, state("running", 1)), (7, ended)) == "1.30 USD"
    other = {replace(OFFER, zone="us-east-1b"): history[OFFER]}
    assert spot_bill(other, (2, state("running", 1)), (7, ended)) == "0.50 to 4.50 USD"


def test_a_spot_price_that_is_not_kept_any_more_is_unknown() -> None:
    looks = (2, state("running", 1)), (7, state("stopped", 1, 6))
    assert spot_bill(steps((4, "0.20")), *looks) == (
        "at least 0.40 USD; unknown: spot before 2025-10-09"
    )


def test_a_spot_machine_whose_end_nobody_saw_costs_a_range_of_its_steps() -> None:
    """Seen until 3, gone at 5: 2 h at 0.20 are certain, 2 h at 0.30 are not."""
    looks = (1, state("running", 1)), (3, state("running", 1)), (5, state("gone"))
    assert spot_bill(steps((0, "0.20"), (3, "0.30")), *looks) == "0.40 to 1.00 USD"


def test_a_period_has_its_part() -> None:
    machine = after((1, state("running", 0)), (30, state("stopped", 0, 24)))
    assert bill(machine, 12, 18) == "3.25 USD"  # 6 x 0.541959
    assert bill(machine, 24, 30) == "0.07 USD"


def test_a_machine_without_a_price_is_named() -> None:
    machine = after((1, state("running", 0)))
    assert bill(replace(machine, parts=()), 0, 1) == "unknown: price of m1"
    text = bill(replace(machine, parts=UNKNOWN.parts), 0, 1)
    assert text.startswith("at least 0.01 USD; unknown: price of g4dn.xlarge in eu-west-3")


OURS = Inventory(
    "gpu", (Host("m1", "a", id="i-1"), Host("m2", "b", id="i-2")), cloud="aws", region="us-east-1",
    cluster_id="c-1", stack="dev", price=PRICE,
)  # fmt: skip


def test_looks_are_kept_and_a_destroyed_stack_stays() -> None:
    running = {"m1": replace(state("running", 0), spot=OFFER), "m2": state("running", 0.5)}
    ledger.note(OURS, running, T0 + H)
    ledger.note(OURS, {**running, "m2": state("stopped", 0.5, 1.5)}, T0 + 2 * H)
    ledger.note(OURS, dict.fromkeys(running, state("gone")), T0 + 3 * H)
    kept = ledger.find("c-1")
    assert kept and kept.region == "us-east-1"
    assert [m.spot for m in kept.machines.values()] == [OFFER, None]
    assert [times(m) for m in kept.machines.values()] == [[(0, 3)], [(0.5, 1.5)]]
    assert kept.machines["i-2"].parts == PRICE.parts and ledger.every() == {"c-1": kept}


def at_price(usd: str) -> Inventory:
    """The cluster, when a machine costs so much, and its disk a tenth of it per hour."""
    each = Decimal(usd)
    disk = Price("disk", each * 73, each * 73, "GB-month", "", "")
    parts = [
        Part(host.MACHINE, Price("machine", each, each, "h", "", "")), Part(host.DISK, disk)
    ]  # fmt: skip
    return replace(OURS, price=host.documented(parts, 2))


def test_each_start_keeps_the_price_of_its_time() -> None:
    """10 h at 1 USD, stopped for 10, 10 h at 3 USD."""
    look = partial(ledger.note, at_price("1"))
    look({"m1": state("running", 0)}, T0 + H)
    look = partial(ledger.note, at_price("3"))
    look({"m1": state("stopped", 0, 10)}, T0 + 12 * H)
    noted = look({"m1": state("running", 20, 10)}, T0 + 21 * H)
    assert noted and str(cost_of(noted, Period(T0, T0 + 30 * H))) == "45.00 USD"
    assert per_hour(noted).text() == "3.30 USD"


RUNNING = {"m1": state("running", 0), "m2": state("running", 0)}


def ended(noted: Ledger | None) -> dict[str, float | None]:
    """When each machine was deleted, in hours."""
    assert noted
    ends = {own_id: each.deleted for own_id, each in noted.machines.items()}
    return {own_id: None if end is None else (end - T0) / H for own_id, end in ends.items()}


def test_a_machine_that_another_one_replaces_has_ended() -> None:
    """m1 and m2 run; after 10 hours there is another m1, and m2 is not read."""
    ledger.note(OURS, RUNNING, T0 + H)
    other = replace(OURS, hosts=(Host("m1", "c", id="i-3"), OURS.hosts[1])).only(["m1"])
    noted = ledger.note(other, {"m1": state("running", 9)}, T0 + 10 * H)
    assert ended(noted) == {"i-1": 10, "i-2": None, "i-3": None}
    assert noted and times(noted.machines["i-1"]) == [(0, 10)]
    assert bill(noted.machines["i-1"], 0, 99) == "0.64 to 5.42 USD"  # 1 to 10 h, and its disk
    again = ledger.note(other, {"m1": state("running", 9)}, T0 + 20 * H)
    assert ended(again) == ended(noted)


@pytest.mark.parametrize(("whole", "end"), [(True, 5), (False, None)])
def test_a_machine_that_its_stack_has_no_more_has_ended(whole: bool, end: float | None) -> None:
    ledger.note(OURS, RUNNING, T0 + H)
    smaller = replace(OURS, hosts=OURS.hosts[:1], is_part=not whole)
    noted = ledger.note(smaller, {"m1": RUNNING["m1"]}, T0 + 5 * H)
    assert ended(noted) == {"i-1": None, "i-2": end}


def test_an_old_inventory_whose_machines_are_gone_ends_no_others() -> None:
    ledger.note(OURS, RUNNING, T0 + H)
    old = replace(OURS, hosts=(Host("m1", "c", id="i-0"),))
    assert ended(ledger.note(old, {"m1": state("gone")}, T0 + 2 * H)) == {"i-1": None, "i-2": None}


def test_a_machine_that_runs_all_the_same_never_ended() -> None:
    """An old inventory, from before the stack grew, had only one of the two."""
    ledger.note(OURS, RUNNING, T0 + H)
    ledger.note(replace(OURS, hosts=OURS.hosts[:1]), {"m1": RUNNING["m1"]}, T0 + 5 * H)
    noted = ledger.note(OURS, RUNNING, T0 + 8 * H)
    assert ended(noted) == {"i-1": None, "i-2": None}
    assert noted and noted.machines["i-2"] == replace(noted.machines["i-1"], name="m2")


def test_hosts_of_no_cloud_have_no_ledger() -> None:
    assert ledger.note(replace(OURS, cloud="hosts"), {"m1": state("running", 0)}) is None
    assert ledger.every() == {}


def machines(*starts: tuple[float, float]) -> Ledger:
    each = {
        f"i-{number}": BilledMachine(
            f"m{number}", T0, None, (Start(T0 + a * H, T0, T0 + b * H),), PRICE.parts
        )
        for number, (a, b) in enumerate(starts)
    }
    return Ledger("gpu", "dev", "aws", machines=each)


@pytest.mark.parametrize(
    ("runs", "idle"),
    [
        ([], 1.0),
        ([("m0", 0.0, 10.0), ("m1", 0.0, 10.0)], 0.0),
        ([("m0", 2.0, 7.0), ("m0", 4.0, 9.0)], 0.65),  # 7 of 20 hours, the overlap once
        ([("m0", -5.0, 5.0), ("m1", 9.0, 99.0)], 0.7),  # 5 + 1
        ([("m9", 0.0, 10.0)], 1.0),  # a run of others
    ],
)
def test_the_idle_part_is_the_time_without_a_run(
    runs: list[tuple[str, float, float]], idle: float
) -> None:
    busy = [(name, T0 + a * H, T0 + b * H) for name, a, b in runs]
    seconds = idle_seconds(machines((0, 10), (0, 10)), busy, Period(T0, T0 + 24 * H))
    assert seconds / (20 * H) == pytest.approx(idle)


def test_only_the_hours_of_a_period_count() -> None:
    assert idle_seconds(machines((0, 1)), [], Period(T0 + 5 * H, T0 + 6 * H)) == 0
    assert hours(machines((0, 4), (1, 2)), Period(T0, T0 + 3 * H)) == 4


def test_spans_that_overlap_count_once() -> None:
    assert covered((0.0, 10.0), [(8.0, 20.0), (1.0, 4.0), (2.0, 3.0)]) == 5.0


def test_stopped_machines_cost_their_disks_per_hour() -> None:
    noted = machines((0, 1), (0, 1))
    assert per_hour(noted).text(digits=4) == "0.0219 USD"
    runs = replace(noted.machines["i-0"], starts=(Start(T0, T0),))
    assert per_hour(replace(noted, machines={**noted.machines, "i-0": runs})).text(digits=4) == (
        "0.5529 USD"
    )


def test_what_the_cloud_does_not_answer_counts_as_long_as_it_was_seen() -> None:
    machine = after((1, state("running", 0))).not_read(T0 + 5 * H)
    assert bill(machine, 0, 5) == "0.59 to 2.71 USD"
    stopped = after((1, state("running", 0)), (2, state("stopped", 0, 2)))
    assert stopped.not_read(T0 + 5 * H) == stopped


def test_the_owner_is_that_of_the_stacks_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("Pulumi.yaml").write_text("name: railhead\nruntime: python\n")
    Path("Pulumi.dev.yaml").write_text("config:\n  railhead:cloud: aws\n  railhead:owner: bob\n")
    noted = ledger.note(OURS, {"m1": state("running", 0)}, T0 + H)
    assert noted and noted.owner == "bob"


def test_the_stop_of_an_earlier_start_does_not_end_the_last_one() -> None:
    """The cloud still reports the stop before it."""
    looks = [(1, state("running", 0)), (6, state("running", 5, 2)), (8, state("stopped", 5, 2))]
    machine = after(*looks)
    assert times(machine) == [(0, 2), (5, 8)] and machine.starts[1].unsure
