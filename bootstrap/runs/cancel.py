"""Ends a run on every host, and looks again whether anything of it is left."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from bootstrap.errors import HostsFailed, RailheadError
from bootstrap.runs.start import FINAL, REMOTE, Run, read_json
from bootstrap.ssh.connect import everywhere
from bootstrap.ssh.session import Session


def sweep(session: Session, run_id: str, python: str) -> dict[str, Any]:
    """End every process of a run ("all": of any run) on one host; what ended and what is left."""
    source = (REMOTE / "run/end_processes.py").read_text()
    reply = session.run([python, "-I", "-S", "-", run_id], text=source)
    if reply.rc:
        raise RailheadError("\n".join(reply.tail[-3:]))
    said: dict[str, Any] = json.loads(reply.tail[-1])
    return said


def cancel(
    opened: Mapping[str, Session], run: Run, pythons: Mapping[str, str], chief: str
) -> dict[str, str]:
    """End a run: the supervisor is asked, then every host is searched, and searched again.

    Returns one line per host.

    Raises:
        HostsFailed: something of the run is left on some host.
    """
    _ask_supervisor(opened[chief], run)
    said = everywhere(
        opened, lambda s: sweep(s, run.run_id, pythons[s.host.name]), what="ending the run"
    )
    told = {n: _told(x) for n, x in said.items()}
    if any(x["left"] for x in said.values()):
        raise HostsFailed("processes are left", told, hint=f"fab cancel --run {run.run_id}")
    return told


def _told(said: Mapping[str, Any]) -> str:
    if said["left"]:
        return f"LEFT: pids {', '.join(map(str, said['left']))}"
    return f"nothing of the run is left (looked through /proc; {said['ended']} had to be ended)"


def _ask_supervisor(chief: Session, run: Run, seconds: float = 8) -> None:
    """SIGTERM, then wait for its last word: it writes result.json before it goes."""
    state = read_json(chief, f"{run.folder}/state.json")
    if not state or state["state"] in FINAL:
        return
    chief.run(["sh", "-c", f"kill -TERM {int(state['pid'])}"])
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        state = read_json(chief, f"{run.folder}/state.json")
        if state["state"] in FINAL:
            return
        time.sleep(0.2)
