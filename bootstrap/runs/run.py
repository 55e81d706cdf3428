"""One run: its id, its folders here and on the hosts, and its state on its chief."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from railhead.documents.lazy import dataclass
from railhead.documents.runs.result import LINE
from railhead.documents.runs.state import RunState

from ..console.text import clean
from ..host.base.programs import SUPERVISOR
from ..inventory import local_state
from ..inventory.hosts import Inventory, check_name
from ..ssh.session import Session
from ..untrusted import run_files
from ..untrusted.decode import parsed

T = TypeVar("T")
QUIET = 30.0  # seconds without a heartbeat, after which the supervisor's process is examined
NOT_STARTED = "not started: the command that prepares it runs, or has ended"
REMOVAL_SECONDS = 60.0  # on each host, after Ctrl-C


@dataclass(frozen=True)
class Run:
    """One run: its id, the local folder of its results, and the names of its hosts (the chief
    first; empty if they are not known); for a run that is not recorded here, also its `standby`."""

    run_id: str
    results: Path
    hosts: tuple[str, ...] = ()
    standby: str = ""

    def __post_init__(self) -> None:
        check_name(self.run_id, "a run's id")  # it becomes part of paths and commands

    @property
    def folder(self) -> str:
        """The run's folder on every host."""
        return f"~/.railhead/runs/{self.run_id}"

    @property
    def supervisor_log(self) -> str:
        """The file with the output of the supervisor or the standby."""
        return f"{self.folder}/logs/supervisor.log"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that mark the processes of a run and allow mpirun to run as root."""
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return {"RAILHEAD_RUN": self.run_id, "RAILHEAD_HOME": "~", **root}

    def part_of(self, inventory: Inventory) -> Inventory:
        """The hosts of the run, the chief first; the whole inventory if it lacks one of them."""
        if not self.hosts or not set(self.hosts) <= set(inventory.names):
            return inventory
        by_name = {host.name: host for host in inventory.hosts}
        return replace(inventory, hosts=tuple(by_name[name] for name in self.hosts))


def find_run(inventory: Inventory, run_id: str | None) -> Run:
    """The run with this id, by default the last run on these hosts; UsageError if none exists."""
    known_id, results = local_state.find_run(inventory, run_id)
    return Run(known_id, results, local_state.hosts_of_run(known_id))


def known_run(inventory: Inventory, run_id: str | None) -> Run | None:
    """The run with this id, by default the last one, if it is recorded on this computer."""
    is_here = local_state.is_recorded(run_id) if run_id else local_state.runs(inventory.name)
    return find_run(inventory, run_id) if is_here else None


def read_json(session: Session, path: str, kind: type[T]) -> T | None:
    """The document in a small file on a host; None if the file does not exist, or a power failure
    has emptied it; Hostile if it is not valid."""
    text = session.read(path)
    return parsed(kind, text, f"a file {path.rpartition('/')[2]}") if text else None


def read_state(chief: Session, run: Run, *, silence: float | None = None) -> RunState | None:
    """state.json of a run; None if it does not exist, Hostile if it is damaged."""
    text = chief.read(f"{run.folder}/state.json", silence=silence)
    return run_files.read_state(text) if text else None


def _is_stopped(chief: Session, pid: int) -> bool:
    """Whether a process of the chief was stopped by a signal or a debugger."""
    status = chief.read(f"/proc/{pid}/status") or ""
    return "\nState:\tT" in status or "\nState:\tt" in status


def state_of(chief: Session, run: Run, state: RunState | None, *, is_there: bool = False) -> str:
    """The state of a run: from its state.json, and, before its end, from its supervisor's
    heartbeat. The agent of its chief must run. `is_there`: whether the chief has its run.json."""
    if not state:
        return NOT_STARTED if is_there else "no longer on its chief"
    if state.has_ended:
        return f"{state.state} ({clean(str(state.cause))[:LINE]})" if state.cause else state.state
    age = time.time() - state.heartbeat
    # Not `kill -0`, which also finds zombies.
    alive = chief.is_running(state.pid, run.folder, SUPERVISOR)
    if not alive:
        return "LOST: its supervisor died"
    if age > QUIET and _is_stopped(chief, state.pid):
        return (
            f"FROZEN: its supervisor is stopped (heartbeat {age:.0f} s ago): kill -CONT {state.pid}"
        )
    again = [f"; {clean(attempt.summary)}" for attempt in state.attempts[-1:]]
    stalled = f"; no progress: {clean(state.stall.text)}" if state.stall else ""
    return f"{state.state} (heartbeat {age:.0f} s ago){''.join(again)}{stalled}"
