"""Ends the machines of a stack: stopped through their cloud, or destroyed with the whole stack.

Either ends with a receipt of what the cloud says, and of what still costs something.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from bootstrap.clouds import base, bucket
from bootstrap.clouds.base import STOPPED, Cloud, Cost, InstanceState
from bootstrap.clouds.bucket import Bucket
from bootstrap.clouds.storage import NoBucket
from bootstrap.console import output
from bootstrap.console.output import Reporter
from bootstrap.console.text import count
from bootstrap.console.wait import Clock
from bootstrap.errors import RailheadError, UsageError
from bootstrap.inventory import local_state, pulumi_stack
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle.receipt import Line, Receipt, of_costs, of_machine
from bootstrap.lifecycle.teardown import unfetched
from bootstrap.runs.results import LEFT

BUCKETS = ("aws:s3/", "gcp:storage/")  # kinds of resources that may stay with their objects


@dataclass
class Witness:
    """Asks a cloud how machines stand, and remembers when each was first said to be at rest."""

    asked: Cloud
    rested: dict[str, str] = field(default_factory=dict)

    def instance_states(self) -> dict[str, InstanceState]:
        """As the cloud says."""
        said = self.asked.instance_states()
        for name, standing in said.items():
            if standing.state in STOPPED:
                self.rested.setdefault(name, standing.at)
        return said


def end(
    inventory: Inventory, *, discard: bool, destroyed: bool, yes: bool, with_bucket: bool
) -> Receipt:
    """Stop a stack's machines, or have all of it destroyed; the receipt is printed and returned."""
    asked = base.cloud_of(inventory)
    if not destroyed:
        receipt = stop(inventory, asked, output.print_lines)
    else:
        agree = by_name(inventory.stack or "", yes)
        receipt = destroy(
            inventory,
            asked,
            output.print_lines,
            agree=agree,
            discard=discard,
            with_bucket=with_bucket,
        )
    output.print_lines(*receipt.describe())
    return receipt


def stop(
    inventory: Inventory, asked: Cloud, report: Reporter, *, clock: Clock | None = None
) -> Receipt:
    """Stop the machines, wait until the cloud says that they are, and write the receipt."""
    lines = []
    try:
        asked.stop()
    except RailheadError as error:
        lines.append(Line("stop", error.message, verified=False))
    lines += at_rest(asked, report, clock)
    lines += of_costs_now(asked)
    lines += of_results(inventory)
    return Receipt(inventory.name, base.utc_now(), tuple(lines))


def at_rest(asked: Cloud, report: Reporter, clock: Clock | None) -> list[Line]:
    """Wait within limits for the cloud's word; a line for each machine as it then stands."""
    witness = Witness(asked)
    said = base.wait_for_state(cast("Cloud", witness), STOPPED, report=report, clock=clock)
    return [of_machine(n, s, witness.rested.get(n, "")) for n, s in said.items()]


def of_results(inventory: Inventory) -> list[Line]:
    """Where the results are of runs that nobody fetched, or not all of them."""
    left = [*unfetched(inventory), *fetched_in_part(inventory)]
    chief = inventory.chief.name
    try:
        there = only_there(inventory, with_bucket=False)
    except RailheadError as error:
        text = f"on {chief}'s disk, and perhaps in {inventory.bucket}: {error.message}"
        return [Line("results", f"{run_id}: {text}", verified=False) for run_id in left]
    return [
        Line("results", f"{run_id}: only on {chief}, on its disk: fab start, then fab fetch")
        if run_id in there
        else Line("results", f"{run_id}: in {inventory.bucket}/runs/{run_id}: fab fetch")
        for run_id in left
    ]


def of_costs_now(asked: Cloud) -> list[Line]:
    """What still bills; that it cannot be told is a line too."""
    try:
        return of_costs(asked.costs())
    except RailheadError as error:
        return [Line("bills", f"the cloud does not say: {error.message}", verified=False)]


def destroy(
    inventory: Inventory,
    asked: Cloud,
    report: Reporter,
    *,
    agree: Callable[[str], None],
    discard: bool,
    with_bucket: bool = False,
    clock: Clock | None = None,
) -> Receipt:
    """Destroy the stack, and look through the cloud whether its machines are gone.

    Raises:
        UsageError: results of a run would be lost, or nobody agreed; nothing was touched.
    """
    name = inventory.stack or ""
    if not name:
        raise UsageError(
            f"nobody knows the stack that made {inventory.name}",
            hint="fab teardown --destroy --stack NAME",
        )
    refuse_unfetched(inventory, discard, with_bucket)
    kept = bucket.bucket_of(inventory) if with_bucket else None
    costs = asked.costs()
    agree("\n".join(what_goes(inventory, costs, with_bucket)))
    lines = [emptied(kept, report)] if kept else without_wheels(inventory, report)
    try:
        pulumi_stack.destroy(name)
    except RailheadError as error:
        lines += after_failure(name, error)
    lines += at_rest(asked, report, clock)
    lines += of_costs_now(asked)
    local_state.forget_cluster(inventory.name)
    return Receipt(f"stack {name}", base.utc_now(), tuple(lines))


def emptied(kept: Bucket, report: Reporter) -> Line:
    """Remove all that is in the bucket."""
    return Line("bucket", f"{count(kept.empty(report), 'object')} removed, with old versions")


def without_wheels(inventory: Inventory, report: Reporter) -> list[Line]:
    """Remove the wheels alone from the bucket, if there is one: they can be built again, and a
    bucket that held nothing else goes with its stack."""
    if not inventory.bucket:
        return []
    try:
        gone = bucket.bucket_of(inventory).empty(report, bucket.WHEELS)
    except RailheadError as error:
        return [Line("bucket", f"the Horovod wheels in it stay: {error.message}")]
    told = f"the Horovod wheels in it: {count(gone, 'object')} removed, with old versions"
    return [Line("bucket", told)] if gone else []


def refuse_unfetched(inventory: Inventory, discard: bool, with_bucket: bool) -> None:
    """UsageError when results of a run would be lost: they are neither here nor kept elsewhere."""
    left = [] if discard else only_there(inventory, with_bucket)
    if left:
        raise UsageError(
            f"results of {', '.join(left)} were not fetched: destroying would lose them",
            hint=f"fab fetch --run {left[-1]}   # or: fab teardown --destroy --discard-results",
        )


def only_there(inventory: Inventory, with_bucket: bool) -> list[str]:
    """Runs whose results are neither here nor in a bucket that is kept."""
    left = [*unfetched(inventory), *fetched_in_part(inventory)]
    if not left or with_bucket or not inventory.bucket:
        return left
    kept = bucket.bucket_of(inventory)
    try:
        return [run_id for run_id in left if kept.manifest(run_id) is None]
    except NoBucket:
        return left


def fetched_in_part(inventory: Inventory) -> list[str]:
    """Runs of which files were too large to be fetched: they are listed beside the results."""
    ids = [path.stem for path in local_state.runs(inventory.name)]
    return [i for i in ids if (local_state.find_run(inventory, i)[1] / LEFT).exists()]


def what_goes(inventory: Inventory, costs: Sequence[Cost], with_bucket: bool) -> list[str]:
    """What a destroy takes away, for the person who is asked."""
    hosts = [f"  machine {h.name} ({h.id or h.address}) with its disk" for h in inventory.hosts]
    others = [f"  {cost.what}" for cost in costs if not cost.what.startswith("bucket")]
    how = "  with all that is in it: " if with_bucket else "  stays if it has more than wheels: "
    kept = [how + cost.what for cost in costs if cost.what.startswith("bucket")]
    rest = (
        ["  the stack's network, keys, roles and deadline"]
        if not inventory.kind.this_machine
        else []
    )
    return [f"destroying stack {inventory.stack} takes away", *hosts, *others, *rest, *kept]


def after_failure(name: str, error: RailheadError) -> list[Line]:
    """Pulumi did not remove all: fine where only a bucket with objects is left."""
    try:
        left = pulumi_stack.resources(name)
    except RailheadError as unknown:
        return [Line("pulumi", f"{error.message}; {unknown.message}", verified=False)]
    if left and all(kind.startswith(BUCKETS) for kind in left):
        return [Line("pulumi", "all is gone but the bucket, which has objects and is kept")]
    told = ", ".join(sorted(set(left))) or "nothing"
    return [Line("pulumi", f"{error.message}; in its state: {told}", verified=False)]


def by_name(name: str, yes: bool) -> Callable[[str], None]:
    """Agreement by typing the stack's name; with `yes` the list is only printed."""

    def agree(listed: str) -> None:
        print(listed, flush=True)
        if yes:
            return
        again = "fab teardown --destroy --yes"
        if not sys.stdin.isatty():
            raise UsageError("nobody is here to agree to it", hint=again)
        if input(f"Type the stack's name, {name}, to destroy it: ").strip() != name:
            raise UsageError("that is not its name: nothing was destroyed", hint=again)

    return agree
