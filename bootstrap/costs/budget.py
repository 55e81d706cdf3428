"""A budget is a time: when it is spent at the price of the machines, the higher one of a range."""

from __future__ import annotations

from decimal import Decimal

from railhead.money import host
from railhead.money.amount import Amount
from railhead.money.bill import hours_for

from ..console.output import Reporter
from ..errors import UsageError
from ..inventory.hosts import Inventory
from . import bill, ledger
from .bill import Period

OF_STACK = "the budget of the stack,"
LEAST_HOURS = 0.1  # to make hosts ready, and to train at all
HINT = "pulumi config set price_per_hour USD && pulumi up   # the price of the whole cluster"


def hours_left(inventory: Inventory, now: float) -> float | None:
    """For how many hours the rest of a stack's budget lasts; None for a stack without one.
    UsageError: a price is not known; or the budget is spent."""
    if inventory.budget is None:
        return None
    noted = ledger.find(inventory.cluster_id or inventory.name)
    spent = bill.cost_of(noted, Period(0.0, now)) if noted else Amount()
    hours = hours_of(inventory.budget, inventory, spent, subject=OF_STACK)
    if hours < LEAST_HOURS:
        raise UsageError(
            f"the budget of the stack, {inventory.budget:g} USD, is spent: {spent} so far",
            hint="pulumi config set budget USD && pulumi up",
        )
    return hours


def within(inventory: Inventory, hours: float, now: float, report: Reporter) -> float:
    """The hours of a deadline, or those that the stack's budget leaves. UsageError as
    `hours_left`."""
    affordable = hours_left(inventory, now)
    if affordable is None or hours <= affordable:
        return hours
    report(f"the budget of the stack leaves {affordable:.1f} of {hours:g} hours")
    return affordable


def hours_of(
    budget: float, inventory: Inventory, spent: Amount | None = None, subject: str = "--budget"
) -> float:
    """For how many hours a budget, less what is spent, lasts while these hosts run. UsageError: a
    price is not known, or the hosts cost nothing."""
    hosts = len(inventory.hosts)
    per_hour = host.per_hour(host.read(inventory.price, hosts), hosts)
    hours = hours_for(Decimal(str(budget)), per_hour, spent or Amount())
    if hours is not None:
        return float(hours)
    unknown = per_hour.unknown or (spent or Amount()).unknown
    if unknown:
        raise UsageError(
            f"{subject} {budget:g}: it is not known when it is spent; unknown:"
            f" {', '.join(unknown)}",
            hint=HINT,
        )
    raise UsageError(
        f"{subject} {budget:g}: no price is recorded of {inventory.name}, or its hosts cost"
        " nothing",
        hint="the same command with --max-hours",
    )


def refuse_small(budget: float, hours: float, kept: float, inventory: Inventory) -> None:
    """UsageError for a budget that is spent before a run can do anything. `kept`: hours for which
    machines are kept after a failure."""
    if hours - kept >= LEAST_HOURS:
        return
    hosts = len(inventory.hosts)
    per_hour = host.per_hour(host.read(inventory.price, hosts), hosts)
    least = Amount.of(per_hour.high) * Decimal(str(LEAST_HOURS + kept))
    raise UsageError(
        f"--budget {budget:g} is spent after {hours * 60:.0f} minutes: the machines cost "
        f"{per_hour.text('per hour')}, and are kept {kept * 60:g} minutes after a failure "
        f"(--keep); at least {least}",
        hint=f"--budget {float(least.high) + 1:.0f}",
    )
