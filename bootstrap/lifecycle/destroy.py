"""Stops the machines of a stack through their cloud, or destroys the whole stack.

Both return a receipt: the states that the cloud reports, and what still costs money.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from bootstrap.clouds import base, bucket
from bootstrap.clouds.base import STOPPED, Cloud, Cost, InstanceState
from bootstrap.clouds.bucket import Bucket
from bootstrap.clouds.storage import NoBucket
from bootstrap.console.output import Reporter, confirm, print_lines
from bootstrap.console.text import count
from bootstrap.console.wait import Clock
from bootstrap.errors import RailheadError, UsageError
from bootstrap.inventory import local_state, pulumi_stack
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle.receipt import Line, Receipt, billing_lines, machine_line
from bootstrap.lifecycle.teardown import unfetched
from bootstrap.runs.results import LEFT

BUCKETS = ("aws:s3/", "gcp:storage/")  # resource types that may remain because they contain objects


@dataclass
class StopTimes:
    """Reads machine states from a cloud, and records when it first reports each as stopped."""

    cloud: Cloud
    stopped_at: dict[str, str] = field(default_factory=dict)

    def instance_states(self) -> dict[str, InstanceState]:
        """The state of each machine."""
        states = self.cloud.instance_states()
        for name, state in states.items():
            if state.state in STOPPED:
                self.stopped_at.setdefault(name, state.at)
        return states


def teardown_stack(
    inventory: Inventory, *, discard: bool, destroyed: bool, yes: bool, with_bucket: bool
) -> Receipt:
    """Stop a stack's machines, or destroy the whole stack; print and return the receipt."""
    cloud = base.cloud_of(inventory)
    if not destroyed:
        receipt = stop(inventory, cloud, print_lines)
    else:
        agree = confirm_by_name(inventory.stack or "", yes)
        receipt = destroy(
            inventory,
            cloud,
            print_lines,
            agree=agree,
            discard=discard,
            with_bucket=with_bucket,
        )
    print_lines(*receipt.describe())
    return receipt


def stop(
    inventory: Inventory, cloud: Cloud, report: Reporter, *, clock: Clock | None = None
) -> Receipt:
    """Stop the machines, wait until the cloud reports them as stopped, return the receipt."""
    lines = []
    try:
        cloud.stop()
    except RailheadError as error:
        lines.append(Line("stop", error.message, verified=False))
    lines += wait_for_stop(cloud, report, clock)
    lines += cost_lines(cloud)
    lines += result_lines(inventory)
    return Receipt(inventory.name, base.utc_now(), tuple(lines))


def wait_for_stop(cloud: Cloud, report: Reporter, clock: Clock | None) -> list[Line]:
    """Wait, with a time limit, until the cloud reports all as stopped; one line per machine."""
    cloud_with_times = StopTimes(cloud)
    states = base.wait_for_state(
        cast("Cloud", cloud_with_times), STOPPED, report=report, clock=clock
    )
    return [machine_line(n, s, cloud_with_times.stopped_at.get(n, "")) for n, s in states.items()]


def result_lines(inventory: Inventory) -> list[Line]:
    """Where the results of runs are that were not fetched, or only partly."""
    left = [*unfetched(inventory), *partly_fetched(inventory)]
    chief = inventory.chief.name
    try:
        unsaved = only_on_machines(inventory, with_bucket=False)
    except RailheadError as error:
        text = f"on {chief}'s disk, and perhaps in {inventory.bucket}: {error.message}"
        return [Line("results", f"{run_id}: {text}", verified=False) for run_id in left]
    return [
        Line("results", f"{run_id}: only on {chief}, on its disk: fab start, then fab fetch")
        if run_id in unsaved
        else Line("results", f"{run_id}: in {inventory.bucket}/runs/{run_id}: fab fetch")
        for run_id in left
    ]


def cost_lines(cloud: Cloud) -> list[Line]:
    """What still costs money, or one line if that cannot be read."""
    try:
        return billing_lines(cloud.costs())
    except RailheadError as error:
        return [Line("bills", f"the cloud does not say: {error.message}", verified=False)]


def destroy(
    inventory: Inventory,
    cloud: Cloud,
    report: Reporter,
    *,
    agree: Callable[[str], None],
    discard: bool,
    with_bucket: bool = False,
    clock: Clock | None = None,
) -> Receipt:
    """Destroy the stack, and verify through the cloud that its machines are gone.

    Raises:
        UsageError: results of a run would be lost, or the user did not agree; nothing changed.
    """
    name = inventory.stack or ""
    if not name:
        raise UsageError(
            f"nobody knows the stack that made {inventory.name}",
            hint="fab teardown --destroy --stack NAME",
        )
    refuse_unfetched(inventory, discard, with_bucket)
    kept = bucket.bucket_of(inventory) if with_bucket else None
    costs = cloud.costs()
    agree("\n".join(resources_to_destroy(inventory, costs, with_bucket)))
    lines = [empty_bucket(kept, report)] if kept else remove_wheels(inventory, report)
    try:
        pulumi_stack.destroy(name)
    except RailheadError as error:
        lines += failure_lines(name, error)
    lines += wait_for_stop(cloud, report, clock)
    lines += cost_lines(cloud)
    local_state.forget_cluster(inventory.name)
    return Receipt(f"stack {name}", base.utc_now(), tuple(lines))


def empty_bucket(kept: Bucket, report: Reporter) -> Line:
    """Remove all objects from the bucket."""
    return Line("bucket", f"{count(kept.empty(report), 'object')} removed, with old versions")


def remove_wheels(inventory: Inventory, report: Reporter) -> list[Line]:
    """Remove only the wheels from the bucket, if there is one: they can be built again, and a
    bucket without other objects can then be deleted with its stack."""
    if not inventory.bucket:
        return []
    try:
        gone = bucket.bucket_of(inventory).empty(report, bucket.WHEELS)
    except RailheadError as error:
        return [Line("bucket", f"the Horovod wheels in it stay: {error.message}")]
    text = f"the Horovod wheels in it: {count(gone, 'object')} removed, with old versions"
    return [Line("bucket", text)] if gone else []


def refuse_unfetched(inventory: Inventory, discard: bool, with_bucket: bool) -> None:
    """UsageError when results of a run exist only on the machines and would be lost."""
    left = [] if discard else only_on_machines(inventory, with_bucket)
    if left:
        raise UsageError(
            f"results of {', '.join(left)} were not fetched: destroying would lose them",
            hint=f"fab fetch --run {left[-1]}   # or: fab teardown --destroy --discard-results",
        )


def only_on_machines(inventory: Inventory, with_bucket: bool) -> list[str]:
    """Runs whose results are neither on this computer nor in a bucket that is kept."""
    left = [*unfetched(inventory), *partly_fetched(inventory)]
    if not left or with_bucket or not inventory.bucket:
        return left
    kept = bucket.bucket_of(inventory)
    try:
        return [run_id for run_id in left if kept.manifest(run_id) is None]
    except NoBucket:
        return left


def partly_fetched(inventory: Inventory) -> list[str]:
    """Runs with files that were too large to fetch; a file beside the results lists them."""
    ids = [path.stem for path in local_state.runs(inventory.name)]
    return [i for i in ids if (local_state.find_run(inventory, i)[1] / LEFT).exists()]


def resources_to_destroy(
    inventory: Inventory, costs: Sequence[Cost], with_bucket: bool
) -> list[str]:
    """What a destroy removes, for the user to confirm."""
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


def failure_lines(name: str, error: RailheadError) -> list[Line]:
    """Lines for an incomplete destroy. A bucket that keeps its objects is not a failure."""
    try:
        left = pulumi_stack.resources(name)
    except RailheadError as unknown:
        return [Line("pulumi", f"{error.message}; {unknown.message}", verified=False)]
    if left and all(kind.startswith(BUCKETS) for kind in left):
        return [Line("pulumi", "all is gone but the bucket, which has objects and is kept")]
    kinds = ", ".join(sorted(set(left))) or "nothing"
    return [Line("pulumi", f"{error.message}; in its state: {kinds}", verified=False)]


def confirm_by_name(name: str, yes: bool) -> Callable[[str], None]:
    """A function that prints what is destroyed and, unless `yes`, requires the stack's name."""

    def agree(summary: str) -> None:
        print_lines(summary)
        hint = "fab teardown --destroy --yes"
        question = f"Type the stack's name, {name}, to destroy it"
        if not yes and not confirm(question, hint=hint, answer=name):
            raise UsageError("that is not its name: nothing was destroyed", hint=hint)

    return agree
