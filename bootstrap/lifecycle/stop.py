"""Stops the machines of a stack through their cloud, and waits until it reports them stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from ..clouds import base
from ..console.output import Reporter
from ..console.wait import Clock
from ..costs import bill, ledger
from ..errors import HostsBusy, RunFailed
from ..inventory.hosts import Inventory
from ..runs.launch import StopPolicy
from . import held, stack_machines, stop_policy
from .consent import STOP, stop_or_terminate
from .receipt import price

RUN_LEFT = (RunFailed, HostsBusy)  # errors after which a run may be in progress


@contextmanager
def after_all_runs(inventory: Inventory, report: Reporter) -> Iterator[None]:
    """Around several runs, which do not stop the machines of a stack: stop them at the end, and
    after an error, unless a run may still be in progress."""
    try:
        yield
    except (KeyboardInterrupt, *RUN_LEFT):
        if inventory.is_managed:
            stops = f"{STOP.plus(**inventory.target)} ends them"
            report(f"a run may still be in progress: the machines keep running; {stops}")
        raise
    except BaseException:
        _stop_all(inventory, report)
        raise
    _stop_all(inventory, report)


def policy_between(inventory: Inventory) -> StopPolicy:
    """What a run inside `after_all_runs` does with the machines: nothing."""
    return StopPolicy(stop=not inventory.is_managed)


def _stop_all(inventory: Inventory, report: Reporter) -> None:
    if inventory.is_managed:
        stop(stack_machines.of_now(inventory, report), report, yes=True)


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
        yes: terminate spot machines, which cannot be stopped, without a question.
        discard: terminate them even if results of runs are only on their disks.
    """
    cloud = base.cloud_of(inventory)
    stop_or_terminate(inventory, cloud, yes=yes, discard=discard, command=STOP, ask=held.ask)()
    states = stop_policy.wait_for_stop(cloud, report, clock=clock)
    if noted := ledger.note(inventory, states):
        report(f"cost so far: {bill.so_far(noted, time.time())}")
    for cost in cloud.costs():
        ends = cost.command.plus(**inventory.target)
        report(f"still bills: {cost.description}: {price(cost)}; {ends} ends it")
