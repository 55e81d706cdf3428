"""`fab status` tells a supervisor that is stopped from one that works."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bootstrap.host.base.programs import NAME, SUPERVISOR
from bootstrap.runs.run import Run, read_state, state_of
from bootstrap.ssh.session import Session


@pytest.mark.parametrize(
    ("sign", "age", "is_frozen"),
    [(signal.SIGSTOP, 40, True), (signal.SIGSTOP, 5, False), (signal.SIGCONT, 40, False)],
)
def test_a_supervisor_that_was_stopped_is_named(
    session: Session, tmp_path: Path, sign: signal.Signals, age: float, is_frozen: bool
) -> None:
    """One that works may be busy for a while, such as with hashes."""
    facts = session.facts()
    session.start_agent(facts.python or "")
    folder = Path(facts.home) / ".railhead/runs/r1"
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen([*command, f"{folder}/{NAME}", SUPERVISOR]) as supervisor:
        supervisor.send_signal(sign)
        state = {"state": "running", "pid": supervisor.pid, "heartbeat": time.time() - age}
        (folder / "state.json").write_text(json.dumps(state))
        run = Run("r1", tmp_path / "r1")
        text = state_of(session, run, read_state(session, run))
        supervisor.kill()
    assert text.startswith("FROZEN") is is_frozen, text
    assert (f"kill -CONT {supervisor.pid}" in text) is is_frozen
    assert is_frozen or text.startswith("running (heartbeat ")
