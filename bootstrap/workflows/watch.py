"""The watch over a run that was started: followed, ended, looked into, and brought home."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bootstrap.console.live import Board
from bootstrap.console.output import print_lines
from bootstrap.console.text import clean
from bootstrap.errors import RailheadError, RunFailed, UsageError
from bootstrap.inventory.hosts import Inventory, whole_number
from bootstrap.lifecycle import power, reach, stop_policy
from bootstrap.runs import bucket_results, cancel, follow
from bootstrap.runs.results import fetch as fetch_results
from bootstrap.runs.results import judge
from bootstrap.runs.start import Run
from bootstrap.ssh.session import ConnectionLost, Session


def keep(
    inventory: Inventory, opened: Mapping[str, Session], started: Run, *, keyboard_ends_it: bool
) -> None:
    """Show the run until it ends. Ctrl-C ends the run, or only the watching (`attach`)."""
    chief = opened[inventory.chief.name]
    try:
        with Board(sys.stdout, [h.name for h in inventory.hosts]) as board:
            follow.follow_to_end(inventory, chief, started, board)
    except ConnectionLost as lost:
        raise RunFailed(
            f"{lost}; the run itself goes on", hint=f"fab attach --run {started.run_id}"
        ) from None
    except KeyboardInterrupt:
        if not keyboard_ends_it:
            raise RunFailed(
                "detached; the run goes on", hint=f"fab attach --run {started.run_id}"
            ) from None
        _cancel_after_interrupt(inventory, started)


def _cancel_after_interrupt(inventory: Inventory, started: Run) -> None:
    print_lines(
        "", "Ctrl-C: ending the run and waiting for each host's word; once more leaves it running"
    )
    try:
        end(inventory, started)
    except KeyboardInterrupt:
        hint = f"fab attach --run {started.run_id}   # or: fab cancel --run {started.run_id}"
        raise RunFailed("left to its supervisor", hint=hint) from None
    raise RunFailed(f"run {started.run_id} was cancelled", hint="fab fetch   # for what it wrote")


def end(inventory: Inventory, started: Run) -> None:
    """End a run on every host and print each host's word."""
    with reach.agents(inventory) as (opened, pythons):
        said = cancel.cancel(opened, started, pythons, inventory.chief.name)
        kept = stop_policy.phase(opened[inventory.chief.name], started)
    print_lines(*(f"[{name}] {text}" for name, text in said.items()), *kept)


def finish(inventory: Inventory, opened: Mapping[str, Session], started: Run) -> None:
    """Fetch the results, say where they are, and judge the run."""
    chief = opened[inventory.chief.name]
    if not chief.connection.is_connected:
        chief = follow.reconnect(inventory) or chief
    result = fetch_results(chief, started, print_lines)
    print_lines(f"results: {started.results}", *(f"  {p}" for p in listing(started.results)))
    judged(inventory, started, result)


def judged(inventory: Inventory, started: Run, result: Mapping[str, Any]) -> None:
    """Say how the run ended and what becomes of the machines; raises what `judge` raises."""
    try:
        print_lines(judge(started, result))
    except RailheadError:
        stop_policy.wait_after_run(inventory, started, print_lines)
        raise
    stop_policy.wait_after_run(inventory, started, print_lines)


def listing(folder: Path) -> list[str]:
    """The files of a results folder, relative to it, the first twenty."""
    files = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    more = [f"... and {len(files) - 20} more"] if len(files) > 20 else []
    return files[:20] + more


def logs(inventory: Inventory, started: Run, rank: str) -> None:
    """Print a log of a run: a rank's, mpirun's or the supervisor's."""
    name = (
        rank
        if rank in ("mpirun", "supervisor")
        else f"rank-{whole_number(rank, '--rank', 0, 9999)}"
    )
    alone = replace(inventory, hosts=inventory.hosts[:1])
    with reach.agents(alone) as (opened, _):
        chief = opened[inventory.chief.name]
        path = f"{started.folder}/logs/{name}.log"
        text = chief.ask("read", paths=[path])[path]
    if text is None:
        raise UsageError(f"run {started.run_id} has no log {name!r} on {inventory.chief.name}")
    print_lines(*(clean(line) for line in text.splitlines()))


def attach(inventory: Inventory, started: Run) -> None:
    """Watch a run to its end, then fetch and judge it."""
    with reach.agents(replace(inventory, hosts=inventory.hosts[:1])) as (opened, _):
        keep(inventory, opened, started, keyboard_ends_it=False)
        finish(inventory, opened, started)


def fetch(seen: power.ClusterStatus, started: Run) -> None:
    """Bring home what a run has written so far; from the bucket when the chief does not run."""
    if seen.inventory.bucket and seen.inventory.chief.name in seen.not_running:
        result = bucket_results.fetch(seen.inventory, started, print_lines)
    else:
        inventory = power.ensure_running(seen, print_lines)
        with reach.agents(replace(inventory, hosts=inventory.hosts[:1])) as (opened, _):
            result = fetch_results(opened[inventory.chief.name], started, print_lines)
    print_lines(f"results: {started.results}", *(f"  {p}" for p in listing(started.results)))
    print_lines(f"state: {result['state'] if result else 'no result yet'}")
