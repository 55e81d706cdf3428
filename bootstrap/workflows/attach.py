"""For a run that was started: follow, cancel, print logs, fetch and judge the results."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bootstrap.clouds.bucket import bucket_of
from bootstrap.console.live import Board
from bootstrap.console.output import print_lines
from bootstrap.console.text import clean
from bootstrap.errors import RailheadError, RunFailed, UsageError
from bootstrap.inventory.hosts import Inventory, whole_number
from bootstrap.lifecycle import power, reach, stop_policy
from bootstrap.runs import bucket_results, checkpoints, results
from bootstrap.runs import cancel as cancellation
from bootstrap.runs.follow import RunConnection, follow_to_end
from bootstrap.runs.start import Run, find_run
from bootstrap.ssh.session import ConnectionLost

SHOWN_FILES = 20


def attach(inventory: Inventory, run_id: str | None) -> None:
    """Follow a run to its end, then fetch and judge its results. `run_id` None: the last run."""
    with connected(inventory, find_run(inventory, run_id)) as connection:
        follow(connection, interrupt_cancels=False)
        finish(connection)


def logs(inventory: Inventory, run_id: str | None, rank: str) -> None:
    """Print a log of a run. `rank` is a rank's number, "mpirun" or "supervisor"."""
    run = find_run(inventory, run_id)
    name = _log_name(rank)
    with connected(inventory, run) as connection:
        path = f"{run.folder}/logs/{name}.log"
        text = connection.chief.call("read", paths=[path])[path]
    if text is None:
        raise UsageError(f"run {run.run_id} has no log {name!r} on {inventory.chief.name}")
    print_lines(*(clean(line) for line in text.splitlines()))


def _log_name(rank: str) -> str:
    if rank in ("mpirun", "supervisor"):
        return rank
    return f"rank-{whole_number(rank, '--rank', 0, 9999)}"


def fetch(status: power.ClusterStatus, run_id: str | None, *, with_checkpoint: bool) -> None:
    """Fetch what a run has written so far; from the bucket when the chief does not run.

    `with_checkpoint`: also the newest checkpoint, which may be large.
    """
    inventory = status.inventory
    run = find_run(inventory, run_id)
    if inventory.bucket and inventory.chief.name in status.not_running:
        if with_checkpoint:
            checkpoints.fetch_from_bucket(bucket_of(inventory), run, print_lines)
        result = bucket_results.fetch(inventory, run, print_lines)
    else:
        with connected(power.ensure_running(status, print_lines), run) as connection:
            if with_checkpoint:
                checkpoints.fetch_from_host(connection.chief, run, print_lines)
            result = results.fetch(connection.chief, run, print_lines)
    _print_results(run.results)
    print_lines(f"state: {result['state'] if result else 'no result yet'}")


def cancel(inventory: Inventory, run_id: str | None) -> None:
    """Cancel a run and verify on every host that none of its processes is left."""
    _cancel(inventory, find_run(inventory, run_id))


def _cancel(inventory: Inventory, run: Run) -> None:
    chief = inventory.chief.name
    with reach.agents(inventory) as (sessions, pythons):
        outcomes = cancellation.cancel(sessions, run, pythons, chief)
        phase = stop_policy.phase(sessions[chief], run)
    print_lines(*(f"[{name}] {text}" for name, text in outcomes.items()), *phase)


@contextmanager
def connected(inventory: Inventory, run: Run) -> Iterator[RunConnection]:
    """Connect to the chief only and start an agent there."""
    with reach.agents(inventory.only([inventory.chief.name])) as (sessions, _):
        yield RunConnection(run, inventory, sessions.chief)


def follow(connection: RunConnection, *, interrupt_cancels: bool) -> None:
    """Show the run until it ends. Ctrl-C cancels the run, or only stops following it."""
    run = connection.run
    attach_hint = f"fab attach --run {run.run_id}"
    try:
        with Board(sys.stdout, connection.inventory.names) as board:
            follow_to_end(connection, board)
    except ConnectionLost as lost:
        raise RunFailed(f"{lost}; the run itself continues", hint=attach_hint) from None
    except KeyboardInterrupt:
        if not interrupt_cancels:
            raise RunFailed("detached; the run continues", hint=attach_hint) from None
        _cancel_after_interrupt(connection.inventory, run)


def _cancel_after_interrupt(inventory: Inventory, run: Run) -> None:
    print_lines(
        "", "Ctrl-C: cancelling the run on every host; press Ctrl-C again to leave it running"
    )
    try:
        _cancel(inventory, run)
    except KeyboardInterrupt:
        hint = f"fab attach --run {run.run_id}   # or: fab cancel --run {run.run_id}"
        raise RunFailed("stopped waiting; the supervisor still has the run", hint=hint) from None
    raise RunFailed(f"run {run.run_id} was cancelled", hint="fab fetch   # for its results so far")


def finish(connection: RunConnection) -> None:
    """Fetch the results, list them, and judge the run."""
    connection.ensure_open()
    run = connection.run
    result = results.fetch(connection.chief, run, print_lines)
    _print_results(run.results)
    if result.get("state") != "succeeded":
        lines = checkpoints.status_lines(connection.chief, run)
        print_lines(*lines, *(f"next: fab train --resume {run.run_id}" for _ in lines))
    judge(connection.inventory, connection.run, result)


def judge(inventory: Inventory, run: Run, result: Mapping[str, Any]) -> None:
    """Print how the run ended and what happens to the machines; raises what `results.judge`
    raises."""
    print_lines(*results.trouble_line(result))
    try:
        print_lines(results.judge(run, result))
    except RailheadError:
        stop_policy.wait_after_run(inventory, run, print_lines)
        raise
    stop_policy.wait_after_run(inventory, run, print_lines)


def _print_results(folder: Path) -> None:
    print_lines(f"results: {folder}", *(f"  {path}" for path in listing(folder)))


def listing(folder: Path) -> list[str]:
    """The files of a results folder, relative to it: the first `SHOWN_FILES`."""
    files = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    hidden = len(files) - SHOWN_FILES
    return files[:SHOWN_FILES] + ([f"... and {hidden} more"] if hidden > 0 else [])
