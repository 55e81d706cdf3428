"""For a run that was started: follow, cancel, print logs, fetch and judge the results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bootstrap.clouds.bucket import bucket_of
from bootstrap.console.live import board_of
from bootstrap.console.output import confirm, print_lines
from bootstrap.errors import RailheadError, RunFailed, Terminated, UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.files import folder_of
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle import power, reach, stop_policy
from bootstrap.lifecycle.teardown import unfetched
from bootstrap.runs import bucket_results, checkpoints, results, start
from bootstrap.runs import cancel as cancellation
from bootstrap.runs.follow import RunConnection, follow_to_end
from bootstrap.runs.start import Run, find_run
from bootstrap.ssh.session import ConnectionLost

SHOWN_FILES = 20


def attach(inventory: Inventory, run_id: str | None) -> None:
    """Follow a run to its end, then fetch and judge its results. `run_id` None: the last run."""
    run = find_run(inventory, run_id)
    try:
        with connected(inventory, run) as connection:
            follow(connection)
            finish(connection)
    except KeyboardInterrupt:
        raise RunFailed("detached; the run continues", hint=_again(run)) from None


def _again(run: Run) -> str:
    return f"fab attach --run {run.run_id}"


def fetch(
    status: power.ClusterStatus, run_id: str | None, to: str | None = None, *, with_checkpoint: bool
) -> None:
    """Fetch what a run has written so far; from the bucket when the chief does not run.

    `to`: a folder for the results instead of the one of `fab train`; it is recorded.
    `with_checkpoint`: also the newest checkpoint, which may be large.
    """
    inventory = status.inventory
    run = find_run(inventory, run_id)
    if to is not None:
        run = replace(run, results=folder_of(to, "--to") / run.run_id)
    results.require_writable(run.results)
    if to is not None:
        local_state.move_results(run.run_id, run.results)
    if inventory.bucket and run.part_of(inventory).chief.name in status.not_running:
        state = "no result"
        if with_checkpoint:
            checkpoints.fetch_from_bucket(bucket_of(inventory), run, print_lines)
        result = bucket_results.fetch(inventory, run, print_lines)
    else:
        with connected(power.ensure_running(status, print_lines), run) as connection:
            state = start.state(connection.chief, run)
            if with_checkpoint:
                checkpoints.fetch_from_host(connection.chief, run, print_lines)
            result = results.fetch(connection.chief, run, print_lines)
    _print_results(run.results)
    print_lines(f"state: {result['state'] if result else state}")


def last_run(inventory: Inventory) -> str:
    """The id of the last run, for a command that names no run and no hosts.

    Raises:
        UsageError: it was started in another folder, and the user did not agree.
    """
    run = find_run(inventory, None)
    folder = _other_folder(run.results)
    if folder is None:
        return run.run_id
    hint = f"fab cancel --run {run.run_id}"
    question = f"the last run, {run.run_id}, was started in {folder}. Cancel it?"
    if not confirm(question, hint=hint):
        raise UsageError("nothing was cancelled", hint=hint)
    return run.run_id


def confirm_ending(inventory: Inventory, command: str) -> None:
    """Ask before `command`, which names no hosts, ends runs that were started in another folder:
    those whose results are not here, as they may be going on.

    Raises:
        UsageError: there are such runs, and the user did not agree.
    """
    runs = [local_state.find_run(inventory, run_id) for run_id in unfetched(inventory)]
    others = [(run_id, at) for run_id, results in runs if (at := _other_folder(results))]
    if not others:
        return
    hint = f"{command}{inventory.option} --yes"
    named = "\n".join(f"run {i}, which may be going on, was started in {at}" for i, at in others)
    if not confirm(f"{named}. End {'it' if len(others) == 1 else 'them'}?", hint=hint):
        raise UsageError("nothing was ended", hint=hint)


def _other_folder(results_of_run: Path) -> Path | None:
    """The folder in which a run was started, by that of its results; None for the current one."""
    if Path.cwd() / "results" in results_of_run.parents:
        return None
    above = [path.parent for path in results_of_run.parents if path.name == "results"]
    return above[0] if above else results_of_run.parent


def cancel(inventory: Inventory, run_id: str | None) -> None:
    """Cancel a run and verify on every host that none of its processes is left."""
    _cancel(inventory, find_run(inventory, run_id))


def _cancel(inventory: Inventory, run: Run) -> None:
    inventory = run.part_of(inventory)
    chief = inventory.chief.name
    with reach.agents(inventory) as (sessions, pythons):
        outcomes = cancellation.cancel(sessions, run, pythons, chief)
        phase = stop_policy.phase(sessions[chief], run)
    print_lines(*(f"[{name}] {text}" for name, text in outcomes.items()), *phase)


@contextmanager
def connected(inventory: Inventory, run: Run) -> Iterator[RunConnection]:
    """Connect to the chief of the run only and start an agent there."""
    inventory = run.part_of(inventory)
    with reach.agents(inventory.only([inventory.chief.name])) as (sessions, _):
        yield RunConnection(run, inventory, sessions.chief)


def follow(connection: RunConnection) -> None:
    """Show the run until it ends."""
    try:
        with board_of(connection.inventory.names) as board:
            follow_to_end(connection, board)
    except ConnectionLost as lost:
        raise RunFailed(f"{lost}; the run itself continues", hint=_again(connection.run)) from None


def follow_started(connection: RunConnection) -> None:
    """Show a run that this command started: Ctrl-C cancels it, SIGTERM leaves it running."""
    try:
        follow(connection)
    except Terminated:
        raise RunFailed("terminated; the run continues", hint=_again(connection.run)) from None
    except KeyboardInterrupt:
        _cancel_after_interrupt(connection.inventory, connection.run)


def _cancel_after_interrupt(inventory: Inventory, run: Run) -> None:
    print_lines(
        "", "Ctrl-C: cancelling the run on every host; press Ctrl-C again to stop waiting for it"
    )
    try:
        _cancel(inventory, run)
    except KeyboardInterrupt:
        what = "stopped waiting: the run is being cancelled, and may still have processes"
        raise RunFailed(what, hint=f"fab cancel --run {run.run_id}   # checks each host") from None
    hint = f"fab fetch --run {run.run_id}   # for its results so far"
    raise RunFailed(f"run {run.run_id} was cancelled", hint=hint)


def fetch_ended(connection: RunConnection) -> None:
    """Fetch the results of a run that was ended, without a judgement."""
    results.fetch(connection.chief, connection.run, print_lines)


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
