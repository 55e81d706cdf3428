"""A cancel on this computer: which processes it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bootstrap.runs import cancel
from bootstrap.runs.run import Run
from bootstrap.ssh.local_session import local_session


def test_another_process_that_has_the_pid_of_the_supervisor_does_not_end(home: Path) -> None:
    """As after a reboot: state.json still says that the run is in progress."""
    folder = home / ".railhead/runs/r1"
    folder.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as other, local_session() as session:
        state = {"state": "running", "pid": other.pid, "heartbeat": 1}
        (folder / "state.json").write_text(json.dumps(state))
        session.start_agent(sys.executable)
        outcomes = cancel.cancel({"here": session}, Run("r1", home), "here")
        ended = other.poll()
        other.kill()
    assert ended is None and outcomes == {"here": "no process of the run is left"}
