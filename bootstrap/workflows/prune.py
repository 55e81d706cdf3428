"""`fab prune`: remove the folders of old runs from the hosts; the newest ones are kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..console.output import print_lines
from ..console.text import count
from ..errors import RailheadError
from ..inventory.files import RUN_ID
from ..inventory.hosts import Inventory
from ..lifecycle import reach
from ..lifecycle.consent import not_all_here
from ..ssh.connect import everywhere
from ..ssh.session import Session

ENTER = 'cd "$HOME/.railhead/runs" 2>/dev/null || exit 0'


def prune(inventory: Inventory, keep: int) -> None:
    """Remove all but the `keep` newest runs of each host, and print how many.

    Runs in progress are kept, and runs whose results are not all on this computer.

    Raises:
        HostsFailed: a folder could not be removed.
    """
    needed = not_all_here(inventory)
    with reach.sessions(inventory) as sessions:
        removed = everywhere(sessions, lambda s: _prune_host(s, keep, needed), what="prune")
    for name, ids in removed.items():
        print_lines(f"[{name}] {count(len(ids), 'run')} removed")
    if needed:
        print_lines(f"kept, because their results are not all here: {', '.join(needed)}")


def _prune_host(session: Session, keep: int, needed: Collection[str]) -> list[str]:
    facts = session.facts()
    busy = {*facts.standbys, *(process.run_id for process in facts.run_processes)}
    names, _ = session.shell(f"{ENTER}; ls -1")
    old = old_runs(names, keep, {*needed, *busy})
    if old:
        lines, code = session.shell(f"{ENTER}; rm -rf -- {' '.join(old)}")
        if code:
            raise RailheadError("\n".join(lines[-3:]))
    return old


def old_runs(names: Sequence[str], keep: int, needed: Collection[str]) -> list[str]:
    """The ids among `names` that are older than the `keep` newest and not needed, oldest first."""
    ids = sorted(name for name in names if RUN_ID.fullmatch(name))
    return [run_id for run_id in ids[: max(len(ids) - keep, 0)] if run_id not in needed]
