"""Stops the machines of a stack through their cloud, and waits for its word."""

from __future__ import annotations

from bootstrap.clouds import base
from bootstrap.console.output import Reporter
from bootstrap.console.wait import Clock
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle import stop_policy
from bootstrap.lifecycle.consent import STOP, stop_or_end
from bootstrap.lifecycle.receipt import price


def stop(
    inventory: Inventory,
    report: Reporter,
    *,
    yes: bool = False,
    discard: bool = False,
    clock: Clock | None = None,
) -> None:
    """Stop the machines and wait until the cloud reports it; HostsFailed if it does not.

    Args:
        yes: spot machines, which can only be ended, are ended without a question.
        discard: they are ended also where results of runs are on their disks only.
    """
    cloud = base.cloud_of(inventory)
    stop_or_end(inventory, cloud, yes=yes, discard=discard, command=STOP)()
    stop_policy.wait_for_stop(cloud, report, clock=clock)
    for cost in cloud.costs():
        report(f"still bills: {cost.what}: {price(cost)}; {cost.command} ends it")
