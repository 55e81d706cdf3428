"""`fab prune`: remove the folders of old runs from the hosts; the newest ones are kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from ..console.output import print_lines
from ..console.text import count
from ..errors import Command, RailheadError
from ..inventory import local_state
from ..inventory.files import RUN_ID
from ..inventory.hosts import Inventory
from ..lifecycle import reach
from ..lifecycle.consent import is_all_here, not_all_here
from ..runs.run import Run
from ..ssh.connect import everywhere
from ..ssh.session import Session

ENTER = 'cd "$HOME/.railhead/runs" 2>/dev/null || exit 0'
# The runs, and once more, after a mark, those whose results no computer has fetched completely.
# Only a chief has a state.json.
UNFETCHED = "unfetched "
LIST = f"""{ENTER}; ls -1
for state in */state.json; do
  run=${{state%/*}}
  if [ -e "$state" ] && ! grep -qs '"left": *0' "$run/fetched"; then echo "{UNFETCHED}$run"; fi
done"""


def prune(inventory: Inventory, keep: int) -> None:
    """Remove all but the `keep` newest runs of each host, and print how many.

    Runs in progress are kept, and runs whose results are not all on this computer; runs that it has
    not recorded for these hosts are kept if no computer has fetched their results.

    Raises:
        HostsFailed: a folder could not be removed.
    """
    needed = not_all_here(inventory)
    with reach.sessions(inventory) as sessions:
        pruned = everywhere(sessions, lambda s: _prune_host(s, keep, needed), what="prune")
    for name, (ids, unfetched) in pruned.items():
        print_lines(f"[{name}] {count(len(ids), 'run')} removed")
        if unfetched:
            fetch = Command("fetch", **inventory.target, run=unfetched[-1])
            print_lines(
                f"[{name}] kept, because nobody has fetched their results: {', '.join(unfetched)}",
                f"next: {fetch}",
            )
    if needed:
        print_lines(f"kept, because their results are not all here: {', '.join(needed)}")


def _prune_host(
    session: Session, keep: int, needed: Collection[str]
) -> tuple[list[str], list[str]]:
    """The ids of the runs that were removed, and of those that were kept because only this host has
    their results."""
    facts = session.facts()
    busy = {*facts.standbys, *(process.run_id for process in facts.run_processes)}
    names, _ = session.shell(LIST)
    unfetched = [
        run_id
        for run_id in old_runs(names, keep, {*needed, *busy})
        if f"{UNFETCHED}{run_id}" in names and not _is_all_here(run_id)
    ]
    old = old_runs(names, keep, {*needed, *busy, *unfetched})
    if old:
        lines, code = session.shell(f"{ENTER}; rm -rf -- {' '.join(old)}")
        if code:
            raise RailheadError("\n".join(lines[-3:]))
    return old, unfetched


def _is_all_here(run_id: str) -> bool:
    """Whether this computer has all results of a run, of any hosts."""
    if not local_state.is_recorded(run_id):
        return False
    return is_all_here(Run(run_id, Path(local_state.recorded_run(run_id).results)))


def old_runs(names: Sequence[str], keep: int, needed: Collection[str]) -> list[str]:
    """The ids among `names` that are older than the `keep` newest and not needed, oldest first."""
    ids = sorted(name for name in names if RUN_ID.fullmatch(name))
    return [run_id for run_id in ids[: max(len(ids) - keep, 0)] if run_id not in needed]
