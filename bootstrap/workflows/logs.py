"""`fab logs`: print a log of a run from its chief, or follow it."""

from __future__ import annotations

from railhead.documents.agent import Follow, LogLine, RunEvent

from ..console.output import print_lines
from ..console.text import last_state
from ..errors import Command, RunFailed, UsageError
from ..inventory.hosts import Inventory, whole_number
from ..runs.run import Run, find_run
from ..ssh.session import Session
from ..untrusted.run_files import read_run_document
from .attach import connected

OTHERS = ("mpirun", "supervisor")


def show(inventory: Inventory, run_id: str | None, rank: str) -> None:
    """Print a log of a run. `rank` is a rank's number, "mpirun" or "supervisor"."""
    run, name = find_run(inventory, run_id), _log_name(rank)
    with connected(inventory, run) as connection:
        text = connection.chief.read(f"{run.folder}/logs/{name}.log")
        if text is None:
            raise _missing(connection.chief, run, rank)
    print_lines(*map(last_state, text.removesuffix("\n").split("\n")))


def follow(inventory: Inventory, run_id: str | None, rank: str) -> None:
    """Print a log of a run, and new lines until the run ends. Ctrl-C stops only the output.

    Raises:
        RunFailed: the output was interrupted; the run continues.
    """
    run, name = find_run(inventory, run_id), _log_name(rank)

    def show_line(event: RunEvent) -> None:
        if isinstance(event, LogLine):
            print_lines(last_state(event.log))

    try:
        with connected(inventory, run) as connection:
            connection.chief.call(Follow(run.folder, log=name), on_event=show_line)
    except KeyboardInterrupt:
        raise RunFailed("the run continues", hint=Command("attach", run=run.run_id)) from None


def _log_name(rank: str) -> str:
    return rank if rank in OTHERS else f"rank-{whole_number(rank, '--rank', 0, 9999)}"


def _missing(chief: Session, run: Run, rank: str) -> UsageError:
    """The error for a log that does not exist, with the choices."""
    text = chief.read(f"{run.folder}/run.json")
    if not text:
        return UsageError(
            f"run {run.run_id} is no longer on {chief.host.name}", hint=Command("status")
        )
    ranks = f"0 to {read_run_document(text).size - 1}"
    return UsageError(
        f"run {run.run_id} has no log of rank {rank}; choices: {ranks}, {', '.join(OTHERS)}"
    )
