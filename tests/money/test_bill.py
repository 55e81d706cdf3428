"""Bills, reckoned by hand to the cent."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest

from railhead.money.amount import Amount, total
from railhead.money.bill import (
    FIRST_MINUTE,
    Existence,
    Price,
    Rate,
    Step,
    UnknownPrice,
    at_steps,
    bill,
    hours_for,
)

T0 = datetime(2026, 11, 1, 8, 0, tzinfo=timezone.utc)
G4DN = UnknownPrice("spot price of g4dn.xlarge in eu-west-3", "there is no row")


def price(usd: str, unit: str = "h", high: str = "") -> Price:
    return Price("x", Decimal(usd), Decimal(high or usd), unit, "2026-07-20", "a list")


def after(**times: float) -> datetime:
    return T0 + timedelta(**times)


def machine(rate: Rate, start: datetime, end: datetime | None) -> Existence:
    return Existence("machine", rate, start, end, least=FIRST_MINUTE)


def disk(gigabytes: int, end: datetime | None, start: datetime = T0) -> Existence:
    return Existence("disk", price("0.08", "GB-month"), start, end, Decimal(gigabytes))


def address(end: datetime | None, start: datetime = T0) -> Existence:
    return Existence("address", price("0.005"), start, end)


def usd(parts: list[Existence], now: datetime) -> list[str]:
    return [str(bill([part], now)).removesuffix(" USD") for part in parts]


def test_on_demand() -> None:
    """Two machines for 5 h 30 min: 2 x 5.5 x 0.526; 100 GB x 0.08 / 730 x 5.5; 5.5 x 0.005."""
    end = after(hours=5.5)
    each = [machine(price("0.526"), T0, end), disk(100, end), address(end)]
    assert usd(each, after(hours=9)) == ["2.89", "0.06", "0.03"]
    assert str(bill([*each, *each], after(hours=9))) == "5.96 USD"  # 5.786 + 0.12055 + 0.055


def test_spot_that_was_taken_twice() -> None:
    """Three starts of 2 h, 30 s and 1 h; the first at 0.2, from 09:00 at 0.21, the others at 0.21:
    0.2 + 0.21 + 1 minute of 0.21 + 0.21."""
    steps = [Step(after(hours=1), price("0.21"))]
    starts = ((0, 2), (3, 3 + 30 / 3600), (4, 5))
    parts = [
        part
        for start, end in starts
        for part in at_steps(
            machine(price("0.2"), after(hours=start), after(hours=end)), steps, after(hours=9)
        )
    ]
    assert bill(parts[-2:-1], after(hours=9)).exact == Decimal("0.21") * (Decimal(60) / 3600)
    assert str(bill(parts, after(hours=9))) == "0.62 USD"  # 0.6235


def test_prices_hold_from_their_times_in_whatever_order_they_come() -> None:
    """EC2 lists the newest first."""
    steps = [Step(after(hours=2), price("0.3")), Step(after(hours=1), price("0.1"))]
    parts = at_steps(machine(price("0.2"), T0, after(hours=4)), steps, after(hours=4))
    assert usd(parts, after(hours=4)) == ["0.20", "0.10", "0.60"]


def test_stopped_overnight() -> None:
    """2 h, then 14 h stopped, then 3 h: 5 x 0.526, and the disk for 19 h. The address is there
    only while the machine runs."""
    runs = [(T0, after(hours=2)), (after(hours=16), after(hours=19))]
    machines = [machine(price("0.526"), *times) for times in runs]
    total = bill([*machines, disk(100, None), *(address(e, s) for s, e in runs)], after(hours=19))
    assert str(total) == "2.86 USD"  # 2.63 + 0.208219 + 0.025


def test_an_endpoint_that_still_runs() -> None:
    """7 days: 168 x 0.526, 168 / 730 x 100 x 0.08, 168 x 0.005; and what it sent, 40 GB, of which
    the account's first 100 GB of a month are free."""
    sent = Existence("sent", price("0", "h", "0.09"), T0, after(hours=1), Decimal(40))
    each = [machine(price("0.526"), T0, None), disk(100, None), address(None), sent]
    assert str(bill(each, after(days=7))) == "91.05 to 94.65 USD"


def test_a_sweep() -> None:
    """Six trials of 20 minutes in a row on four machines at 1.006: 8 machine hours."""
    trials = [
        machine(price("1.006"), after(minutes=20 * n), after(minutes=20 * (n + 1)))
        for n in range(6)
        for _ in range(4)
    ]
    assert str(bill(trials, after(days=1))) == "8.05 USD"


def test_an_up_that_failed() -> None:
    """One machine for 20 seconds, which is billed as a minute, and disks that were left for 3 days:
    0.526 / 60 + 2 x 100 x 0.08 x 72 / 730."""
    remains = [machine(price("0.526"), T0, after(seconds=20)), disk(200, None)]
    assert usd(remains, after(days=3)) == ["0.01", "1.58"]


def test_an_unknown_price_spreads_to_the_sum() -> None:
    known, unknown = (machine(rate, T0, after(hours=2)) for rate in (price("1.56"), G4DN))
    total = bill([known, unknown, unknown], T0)
    assert str(total) == f"at least 3.12 USD; unknown: {G4DN.what}" and total.exact is None
    assert str(bill([unknown], T0)) == f"unknown: {G4DN.what}"


def test_nothing_of_an_unknown_price_costs_nothing() -> None:
    assert (G4DN.amount * 0).exact == 0 and not (G4DN.amount * 1).known


def test_a_clock_that_differs_from_the_clouds_makes_no_negative_bill() -> None:
    """The cloud says that they started 5 minutes from now: the minute of a machine, no disk."""
    start = after(minutes=5)
    parts = [machine(price("60"), start, None), disk(1000, None, start)]
    assert usd(parts, T0) == ["1.00", "0.00"]


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Amount(Decimal("1.76"), Decimal("2.1")), "1.76 to 2.10 USD"),
        (Amount.of("0.004"), "less than 0.01 USD"),
        (Amount.of(0), "0.00 USD"),
        (Amount.of("0.005"), "0.01 USD"),
        (total([Amount.of("0.1")] * 3), "0.30 USD"),
        (Amount(unknown=("b", "a")) + Amount(unknown=("a", "c")), "unknown: b, a, c"),
    ],
)
def test_amounts_in_words(amount: Amount, text: str) -> None:
    assert str(amount) == text


@pytest.mark.parametrize(
    ("budget", "per_hour", "spent", "hours"),
    [
        ("12", Amount.of(2), Amount(), "6"),
        ("12", Amount(Decimal(1), Decimal(3)), Amount(Decimal(0), Decimal(3)), "3"),
        ("12", Amount.of(2), Amount.of(13), "0"),
        ("12", G4DN.amount, Amount(), None),
        ("12", Amount.of(2), G4DN.amount, None),
        ("12", Amount.of(0), Amount(), None),
    ],
)
def test_the_hours_of_a_budget(
    budget: str, per_hour: Amount, spent: Amount, hours: str | None
) -> None:
    """At the higher price of a range, which may be the right one."""
    affordable = hours_for(Decimal(budget), per_hour, spent)
    assert affordable == (None if hours is None else Decimal(hours))


def test_a_price_says_its_day_and_source() -> None:
    rate: Rate = price("0.2000", high="0.216")
    assert str(rate) == "0.2 to 0.216 USD per h (a list, 2026-07-20)"
