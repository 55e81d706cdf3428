"""The conditions for terminating machines: results are safe, and the user agrees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from railhead.documents.lazy import dataclass

from ..clouds import bucket
from ..clouds.base import Cloud
from ..clouds.storage import NoBucket
from ..console.output import Reporter, confirm, print_lines, print_result
from ..errors import Command, Hint, UsageError
from ..inventory import local_state
from ..inventory.hosts import Inventory
from ..runs.results import BY_HAND, LEFT
from ..runs.run import Run, find_run
from ..runs.takeover import is_fetched

DESTROY = Command("teardown", destroy=True)
TEARDOWN, STOP, UP = Command("teardown"), Command("stop"), Command("up")


@dataclass(frozen=True)
class Held:
    """What one machine holds: the ids of runs whose results nobody has fetched completely, and the
    runs and endpoints that have processes there."""

    unfetched: tuple[str, ...] = ()
    in_progress: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answers:
    """What the machines answered, and why others were not contacted, by name."""

    held: Mapping[str, Held] = field(default_factory=dict)
    not_contacted: Mapping[str, str] = field(default_factory=dict)

    @property
    def in_progress(self) -> dict[str, str]:
        """The host of each run and endpoint in progress."""
        return {work: name for name, held in self.held.items() for work in held.in_progress}

    @property
    def unfetched(self) -> dict[str, str]:
        """The host that has the results of each run that nobody has fetched."""
        return {run_id: name for name, held in self.held.items() for run_id in held.unfetched}

    def describe(self) -> Iterator[str]:
        """A line about the machines that were not contacted."""
        if self.not_contacted:
            names = "; ".join(f"{name}: {why}" for name, why in self.not_contacted.items())
            yield f"not contacted for results that another computer may have left there: {names}"


def refuse_unfetched(
    inventory: Inventory,
    discard: bool,
    with_bucket: bool,
    command: Command = DESTROY,
    *,
    ask: Callable[[Inventory], Answers] = lambda _: Answers(),
) -> None:
    """UsageError when results of a run exist only on the machines and would be lost. `ask` queries
    the machines, for runs of other computers."""
    if discard:
        return
    answers = ask(inventory)
    print_lines(*answers.describe())
    if unfetched := only_on_machines(inventory, with_bucket, answers):
        raise _would_be_lost(inventory, unfetched, command, "their disks")


def refuse_removal(
    inventory: Inventory, answers: Answers, removed: Callable[[], Sequence[str]]
) -> None:
    """UsageError when `fab up` would remove machines with the only copy of a run's results.
    `removed`: the ids of the machines that it would delete or replace; called only if there are
    such results, because a preview takes seconds."""
    unfetched = only_on_machines(inventory, with_bucket=False, answers=answers)
    if not unfetched:
        return
    ids = removed()
    names = [host.name for host in inventory.hosts if host.id in ids]
    has = answers.unfetched
    lost = [run for run in unfetched if (has.get(run) or _chief(run, inventory)) in names]
    if lost:
        raise _would_be_lost(
            inventory, lost, UP, f"{', '.join(names)} would be replaced or removed: the disks"
        )


def refuse_interruption(
    inventory: Inventory, answers: Answers, stopped: Callable[[], Sequence[str]]
) -> None:
    """UsageError when `fab up` would stop machines while a run or an endpoint is in progress.
    `stopped`: the ids of the machines that a change stops and starts again; called only then."""
    if not answers.in_progress:
        return
    ids = stopped()
    names = [host.name for host in inventory.hosts if host.id in ids]
    if names:
        progress = ", ".join(f"{work} (on {name})" for work, name in answers.in_progress.items())
        raise UsageError(
            f"{', '.join(names)} would be stopped for this change, which interrupts {progress}",
            hint=Hint(UP.plus(**inventory.target, yes=True), "   # interrupts it"),
        )


def _chief(run_id: str, inventory: Inventory) -> str:
    """The name of the host that has the results of a run."""
    names = [name for name in local_state.hosts_of_run(run_id) if name in inventory.names]
    return names[0] if names else inventory.chief.name


def _would_be_lost(
    inventory: Inventory, unfetched: Sequence[str], command: Command, disks: str
) -> UsageError:
    again = command.plus(**inventory.target, discard_results=True)
    return UsageError(
        f"results of {', '.join(unfetched)} were not all fetched: {disks} would be "
        "deleted, and the results lost",
        hint=Hint(to_bring(inventory, unfetched[-1]), "   # or: ", again),
    )


def only_on_machines(
    inventory: Inventory, with_bucket: bool, answers: Answers | None = None
) -> list[str]:
    """Runs whose results are neither on this computer nor in a bucket that is kept; with `answers`
    also those that another computer has started, if nobody has fetched them."""
    unfetched = not_all_here(inventory)
    others = answers.unfetched if answers else {}
    unfetched += [run_id for run_id in sorted(others) if not local_state.is_recorded(run_id)]
    if not unfetched or with_bucket or not inventory.bucket:
        return unfetched
    store = bucket.bucket_of(inventory)
    try:
        return [run_id for run_id in unfetched if store.manifest(run_id) is None]
    except NoBucket:
        return unfetched


def not_all_here(inventory: Inventory) -> list[str]:
    """Runs of a cluster whose results are not all on this computer, oldest first: they were not
    fetched, or some files were too large; a file next to the results lists these files."""
    ids = [path.stem for path in local_state.runs(inventory.name)]
    return [i for i in ids if not is_all_here(find_run(inventory, i))]


def is_all_here(run: Run) -> bool:
    """Whether all results of a run are on this computer."""
    return is_fetched(run) and not (run.results / LEFT).exists()


def unfetched(inventory: Inventory) -> list[str]:
    """Runs of a cluster whose results were never fetched to this computer, oldest first."""
    ids = [path.stem for path in local_state.runs(inventory.name)]
    return [i for i in ids if not is_fetched(find_run(inventory, i))]


def to_bring(inventory: Inventory, run_id: str) -> Hint:
    """The command that fetches the missing part of a run's results from its chief."""
    if not local_state.is_recorded(run_id):  # a run of another computer
        return Hint(Command("fetch", run=run_id, **inventory.target))
    return Hint(Command("fetch", run=run_id)) if run_id in unfetched(inventory) else BY_HAND


def before_question(yes: bool) -> Reporter:
    """The printer of the lines before a question; with `yes` no question follows."""
    return print_lines if yes else print_result


def confirm_by_name(name: str, yes: bool, command: Command = DESTROY) -> Callable[[str], None]:
    """A function that prints a summary and, unless `yes`, requires the stack's name. Before a
    question the summary is shown with --quiet, too. `command`: the one in the hint."""

    def agree(summary: str) -> None:
        before_question(yes)(summary)
        hint = command.plus(stack=name, yes=True)
        question = f"Type the stack's name, {name}, to continue"
        if not yes and not confirm(question, hint=hint, answer=name):
            raise UsageError("that is not its name: nothing was changed", hint=hint)

    return agree


def stop_or_terminate(
    inventory: Inventory,
    cloud: Cloud,
    *,
    yes: bool,
    discard: bool,
    command: Command,
    ask: Callable[[Inventory], Answers],
) -> Callable[[], None]:
    """The call that stops the machines; for machines that can only be terminated, after consent.
    `ask`: as in `refuse_unfetched`. UsageError: results would be lost with the disks, or the user
    did not agree."""
    spot_names = cloud.cannot_stop()
    if not spot_names:
        return cloud.stop
    refuse_unfetched(inventory, discard, with_bucket=False, command=command, ask=ask)
    confirm_by_name(inventory.stack or inventory.name, yes, command)(
        f"{', '.join(spot_names)}: one-time spot machines, which EC2 can terminate and not stop: "
        "their disks are deleted with them. New ones, with empty disks: "
        f"{Command('up', refresh=True, **inventory.target)}"
    )
    return cloud.terminate
