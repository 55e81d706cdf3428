"""Cancels a run on every host and verifies that all its processes have ended."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from railhead.documents.agent.runs import EndRun
from railhead.documents.runs.state import RunState
from railhead.documents.runs.swept import Swept

from ..console.text import count
from ..console.wait import wait_until
from ..errors import Command, HostsFailed, RailheadError
from ..host.base.programs import SUPERVISOR
from ..ssh.connect import everywhere
from ..ssh.session import Session
from ..untrusted.unpack import Hostile
from .run import Run, read_state

SUPERVISOR_SECONDS = 8.0  # for the supervisor to write result.json and exit after SIGTERM


def cancel(sessions: Mapping[str, Session], run: Run, chief: str) -> dict[str, str]:
    """Cancel a run: first through its supervisor, if the chief can be reached; then terminate its
    processes on every host.

    Returns one line per host.

    Raises:
        HostsFailed: a process of the run is still running on some host.
    """
    if chief in sessions:
        with contextlib.suppress(
            RailheadError
        ):  # its processes are then terminated, as on other hosts
            _cancel_by_supervisor(sessions[chief], run)
    swept = everywhere(sessions, lambda s: s.call(EndRun(run.run_id)), what="cancelling the run")
    outcomes = {name: _outcome(host) for name, host in swept.items()}
    if any(host.left for host in swept.values()):
        raise HostsFailed(
            "processes of the run remain", outcomes, hint=Command("cancel", run=run.run_id)
        )
    return outcomes


def _outcome(swept: Swept) -> str:
    if swept.left:
        return f"LEFT: pids {', '.join(map(str, swept.left))}"
    ended = f"{count(swept.ended, 'process')} ended by force" if swept.ended else ""
    return "; ".join(filter(None, ["no process of the run is left", ended]))


def _cancel_by_supervisor(chief: Session, run: Run) -> None:
    """Send SIGTERM to the supervisor of a run in progress, and wait until it has ended the run.
    After a reboot another process may have its pid."""
    state = _state(chief, run)
    if not state or state.has_ended or not chief.is_running(state.pid, run.folder, SUPERVISOR):
        return
    chief.run(["sh", "-c", f"kill -TERM {state.pid}"])
    wait_until(lambda: _has_ended(chief, run), seconds=SUPERVISOR_SECONDS, every=0.2)


def _has_ended(chief: Session, run: Run) -> bool:
    state = _state(chief, run)
    return state is None or state.has_ended


def _state(chief: Session, run: Run) -> RunState | None:
    """state.json; None also if it is damaged: the processes are terminated without it."""
    try:
        return read_state(chief, run)
    except Hostile:
        return None
