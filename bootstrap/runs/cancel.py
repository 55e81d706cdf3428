"""Cancels a run on every host and verifies that none of its processes is left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bootstrap.console.wait import wait_until
from bootstrap.errors import HostsFailed, RailheadError
from bootstrap.runs.start import FINAL, REMOTE, Run, read_json
from bootstrap.ssh.connect import everywhere
from bootstrap.ssh.session import Session

SUPERVISOR_SECONDS = 8.0  # the supervisor writes result.json after SIGTERM, before it exits


def sweep(session: Session, run_id: str, python: str) -> dict[str, Any]:
    """End every process of a run ("all": of any run) on one host.

    Returns {"ended": the number of processes, "left": the pids that are still there}.
    """
    source = (REMOTE / "run/end_processes.py").read_text()
    reply = session.run([python, "-I", "-S", "-", run_id], text=source)
    if reply.rc:
        raise RailheadError("\n".join(reply.tail[-3:]))
    swept: dict[str, Any] = json.loads(reply.tail[-1])
    return swept


def cancel(
    sessions: Mapping[str, Session], run: Run, pythons: Mapping[str, str], chief: str
) -> dict[str, str]:
    """Cancel a run: first by its supervisor, then by ending its processes on every host.

    Returns one line per host.

    Raises:
        HostsFailed: a process of the run is left on some host.
    """
    _cancel_by_supervisor(sessions[chief], run)
    swept = everywhere(
        sessions, lambda s: sweep(s, run.run_id, pythons[s.host.name]), what="cancelling the run"
    )
    outcomes = {name: _outcome(host) for name, host in swept.items()}
    if any(host["left"] for host in swept.values()):
        raise HostsFailed("processes are left", outcomes, hint=f"fab cancel --run {run.run_id}")
    return outcomes


def _outcome(swept: Mapping[str, Any]) -> str:
    if swept["left"]:
        return f"LEFT: pids {', '.join(map(str, swept['left']))}"
    return f"no process of the run is left (looked through /proc; {swept['ended']} had to be ended)"


def _cancel_by_supervisor(chief: Session, run: Run) -> None:
    """Send SIGTERM to the supervisor of a run in progress, and wait until it has ended the run."""
    path = f"{run.folder}/state.json"
    state = read_json(chief, path)
    if not state or state["state"] in FINAL:
        return
    chief.run(["sh", "-c", f"kill -TERM {int(state['pid'])}"])
    wait_until(
        lambda: read_json(chief, path)["state"] in FINAL, seconds=SUPERVISOR_SECONDS, every=0.2
    )
