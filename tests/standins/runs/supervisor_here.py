"""The supervisor of a run in this process: what it concludes, without mpirun."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from standins.runs.run_documents import run_json

from bootstrap.host.attempts.run_state import State
from bootstrap.host.output.mpirun_output import MpirunOutput
from bootstrap.host.rank.rank import encoded
from bootstrap.host.supervisor import supervisor
from railhead.documents.runs.result import Result


class SupervisorHere:
    """A run of two ranks on the hosts a and b, whose output a test writes."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, **changes: Any) -> None:
        self.folder = folder
        for name in ("work", "results", "logs"):
            (folder / name).mkdir(parents=True)
        hosts = [{"name": "a"}, {"name": "b"}]
        document = run_json(**{"hosts": hosts, "launcher": "tensorflow", "size": 2, **changes})
        (folder / "run.json").write_text(json.dumps(document))
        patch.setattr(supervisor, "RUN", str(folder))
        self.supervisor = supervisor.Supervisor(State(str(folder)))
        self.output = self.supervisor.output

    def rank_prints(self, rank: int, text: str) -> None:
        """A rank prints lines, which come through mpirun."""
        raw = b"[1,%d]<stdout>:%s" % (rank, encoded(text.encode() + b"\n"))
        splitter = MpirunOutput()
        for sender, line in [*splitter.feed(raw), *splitter.close()]:
            self.output.add_line(sender, line)

    def mpirun_prints(self, text: str) -> None:
        """mpirun prints its own messages."""
        for line in text.splitlines():
            self.output.add_line(-1, line.encode())

    def result(self, code: int) -> Result:
        """The result where mpirun has ended with this exit code, after both ranks."""
        self.output.heartbeats.ended((0, 1))
        return self.supervisor.result(code, {})

    def log(self, name: str) -> str:
        """A log of the run."""
        return (self.folder / f"logs/{name}.log").read_text()
