"""What must hold before machines and their disks are ended: results are safe, the user agrees."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from bootstrap.clouds import bucket
from bootstrap.clouds.base import Cloud
from bootstrap.clouds.storage import NoBucket
from bootstrap.console.output import confirm, print_lines
from bootstrap.errors import UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle.teardown import unfetched
from bootstrap.runs.results import LEFT

DESTROY = "fab teardown --destroy"
TEARDOWN, STOP = "fab teardown", "fab stop"


def refuse_unfetched(
    inventory: Inventory, discard: bool, with_bucket: bool, command: str = DESTROY
) -> None:
    """UsageError when results of a run exist only on the machines and would be lost."""
    left = [] if discard else only_on_machines(inventory, with_bucket)
    if left:
        again = f"{command}{inventory.option} --discard-results"
        raise UsageError(
            f"results of {', '.join(left)} were not fetched: their disks would be deleted, and "
            "the results lost",
            hint=f"fab fetch --run {left[-1]}   # or: {again}",
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


def confirm_by_name(name: str, yes: bool, command: str = DESTROY) -> Callable[[str], None]:
    """A function that prints what is ended and, unless `yes`, requires the stack's name.

    Args:
        name: what the user has to type.
        yes: whether the question is already answered.
        command: the command that is typed, for the hint.
    """

    def agree(summary: str) -> None:
        print_lines(summary)
        hint = f"{command} --stack {shlex.quote(name)} --yes"
        question = f"Type the stack's name, {name}, to go on"
        if not yes and not confirm(question, hint=hint, answer=name):
            raise UsageError("that is not its name: nothing was changed", hint=hint)

    return agree


def stop_or_end(
    inventory: Inventory, cloud: Cloud, *, yes: bool, discard: bool, command: str
) -> Callable[[], None]:
    """The call that stops the machines; for machines that can only be ended, after consent.

    Raises:
        UsageError: results would be lost with the disks, or the user did not agree.
    """
    only_end = cloud.cannot_stop()
    if not only_end:
        return cloud.stop
    refuse_unfetched(inventory, discard, with_bucket=False, command=command)
    confirm_by_name(inventory.stack or inventory.name, yes, command)(
        f"{', '.join(only_end)}: one-time spot machines, which EC2 can end and not stop: their "
        "disks are deleted with them. New ones, with empty disks: "
        f"fab up --refresh{inventory.option}"
    )
    return cloud.end
