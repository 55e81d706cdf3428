"""A run's folder with the real supervisor, and a command of the test in place of mpirun."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from places import CASES
from standins import programs
from standins.runs.run_documents import run_json
from standins.waiting import wait_until

from bootstrap.host.base.programs import NAME, SUPERVISOR

MESSAGES = CASES / "mpirun"
END = r"\036"
ENDS = r'printf "[1,0]<stdout>:\034[1,1]<stdout>:\034"'  # both ranks were seen to end


class Run:
    """A run's folder, and the supervisor that is started in it."""

    def __init__(self, home: Path, script: str, run_id: str = "r1", **changes: Any) -> None:
        self.home, self.run_id = home, run_id
        self.environ: dict[str, str] = {}  # more variables of the supervisor
        self.folder = home / ".railhead" / "runs" / run_id
        for name in ("work", "results", "logs"):
            (self.folder / name).mkdir(parents=True)
        programs.place(self.folder)
        changes.setdefault("hosts", [{"name": "a"}, {"name": "b"}])
        self.write(
            "run.json",
            run_json(**{"run_id": run_id, "launcher": "tensorflow", "size": 2, **changes}),
        )
        self.mpirun(script)
        (home / "bin").mkdir(exist_ok=True)
        (home / "bin" / "ssh").write_text('#!/bin/sh\necho \'{"ended": 0, "left": []}\'\n')
        (home / "bin" / "ssh").chmod(0o755)

    def write(self, name: str, document: Any) -> None:
        (self.folder / name).write_text(json.dumps(document))

    def mpirun(self, script: str, *words: str) -> None:
        """The script is what mpirun does; `words` are arguments beside it."""
        self.write("mpirun.json", ["sh", "-c", f"trap '{ENDS}' EXIT; {script}", *words])

    def read(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text())

    def log(self, name: str) -> str:
        return (self.folder / "logs" / f"{name}.log").read_bytes().decode()

    def start(
        self, path: str = os.environ["PATH"], *words: str, stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        environment = {"HOME": str(self.home), "PATH": f"{self.home}/bin:{path}"}
        environment |= {"RAILHEAD_RUN": self.run_id, "RAILHEAD_HOME": str(self.home)}
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        environment |= self.environ
        argv = [*programs.command(self.folder, SUPERVISOR), *words]
        log = (self.folder / "logs" / "supervisor.log").open("wb")
        streams: dict[str, Any] = {"stdin": stdin, "stdout": log, "stderr": log}
        return subprocess.Popen(argv, cwd=self.folder, env=environment, **streams)

    def result(self, path: str = os.environ["PATH"]) -> Any:
        """result.json, once the run has ended; state.json says the same."""
        self.start(path).wait(60)
        result = self.read("results/result.json")
        assert self.read("state.json")["state"] == result["state"]
        assert not list(self.folder.glob("**/*.part")) and not (self.folder / "reserve").exists()
        return result

    def running(self) -> Any:
        """state.json, once mpirun runs."""
        state = self.folder / "state.json"
        wait_until(lambda: state.exists() and "mpirun" in self.read("state.json"))
        return self.read("state.json")


def says(rank: int, text: str) -> str:
    """sh that prints a line as mpirun --tag-output passes it on from a rank."""
    quoted = text.replace("\\", "\\\\").replace("%", "%%").replace("'", "'\\''")
    return f"printf '[1,{rank}]<stdout>:{quoted}{END}'"


def hashed(run: Run) -> set[str]:
    """The files of the manifest, each of which is there once."""
    paths = [entry["path"] for entry in run.read("results/manifest.json")["files"]]
    assert len(set(paths)) == len(paths)
    return set(paths)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


needs_mpirun = pytest.mark.skipif(not shutil.which("mpirun"), reason="there is no mpirun here")


def with_script(run: Run, script: str, ranks: int = 2) -> Run:
    """The run of a script by rank.py on ranks of this machine, which join each other unseen."""
    (run.folder / "work" / "train.py").write_text(script)
    run.write("run.json", {**run.read("run.json"), "program": PROGRAM, "independent": True})
    rank = f"{sys.executable} ../{NAME} rank.rank {run.folder}"
    start = f"cd {run.folder}/work; PYTHONUNBUFFERED=1 exec {rank}"
    mpirun = ["mpirun", "-np", str(ranks), "--oversubscribe", "--tag-output", "sh", "-c", start]
    run.write("mpirun.json", mpirun)
    return run


PROGRAM = {"kind": "script", "path": "train.py", "args": [], "sagemaker": False}
HEAD = "import os, sys, time\nrank = int(os.environ['RAILHEAD_RANK'])\n"
