"""A run with a lease on its chief, before a real S3 server: the supervisor and what it starts, with
a command of the test in place of mpirun. The test stands for the host that takes it over.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from standins import programs
from standins.runs.supervised_run import Run, is_alive
from standins.stores.object_stores import S3
from standins.waiting import wait_until

from bootstrap.host.lease import fence
from bootstrap.host.lease.terms import Terms
from bootstrap.host.run import held
from bootstrap.host.run.lease import HOLD
from bootstrap.host.upload import upload
from railhead.documents.runs.takeover import Claim

NUMBERS = itertools.count()
UPLOADS = ("upload/live_upload.py", "\nPAUSE = 5.0", "\nPAUSE = 0.2")
STOPS = ("supervisor/stop_machines.py", "UNUSED = 1200.0", "UNUSED = 0.0")
TRAINS = "sleep 600 & echo $! >ranks; wait"
# A host that got its stop command answers no more.
SSH = """#!/bin/sh
printf '%s\\n' "$*" >>"$HOME/commands"
case "$*" in *true) exit 255;; esac
echo '{"ended": 0, "left": []}'
"""


@dataclass
class Chief:
    """A run of two hosts, on its chief. `terms`: the bucket, as another host sees it."""

    run: Run
    store: S3
    bucket: str
    terms: Terms

    @property
    def folder(self) -> Path:
        return self.run.folder

    def objects(self) -> dict[str, bytes]:
        """What is in the bucket, without the beats: one may arrive after its sender stood still."""
        names = [name for name in self.store.names(self.bucket) if "/beat/" not in name]
        return {name: self.store.get(self.bucket, name) for name in names}

    @property
    def has_results(self) -> bool:
        """Whether the results are complete in the bucket."""
        return "runs/r1/manifest.json" in self.store.names(self.bucket)

    def checkpoint(self, step: int) -> None:
        """The training writes a checkpoint."""
        folder = self.folder / f"checkpoints/step-{step:08d}"
        folder.mkdir(parents=True)
        (folder / "state.npz").write_text(f"arrays {step}")
        (folder / "manifest.json").write_text("{}")

    def train(self, term: int = 1) -> int:
        """Start; the pid of the supervisor, once a checkpoint, and in term 1 a beat, are in the
        bucket."""
        self.checkpoint(1)
        pid = self.run.start().pid
        wait_until(lambda: has_text(self.folder / "ranks") and (term > 1 or self.terms.beat(1)))
        wait_until(lambda: "runs/r1/checkpoints/manifest.json" in self.store.names(self.bucket))
        return pid

    def rank(self) -> int:
        """The pid of a rank."""
        return int((self.folder / "ranks").read_text())

    def processes(self) -> list[int]:
        """All processes of the run's folder and its ranks, the supervisor first."""
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        return [pid for pid in pids if pid != os.getpid() and str(self.folder) in here(pid)]

    def seconds_pass(self, file: str) -> bool:
        """More of them than the limit since the last beat, or sign of life; False if there are none
        any more."""
        with contextlib.suppress(FileNotFoundError):
            past = held.now() - HOLD - 10
            os.utime(self.folder / file, (past, past))
            return True
        return False

    def is_taken_over(self) -> None:
        """Another host gets the next term, and the checkpoints."""
        assert self.terms.claim(2, Claim("b", "mark-2"))
        fence.rewrite_checkpoints(self.terms.bucket, 2)

    def ended(self) -> None:
        """The supervisor has ended the run here, and has stopped this machine alone."""
        wait_until(lambda: has_text(self.run.home / "commands"))
        assert (self.run.home / "commands").read_text() == "chief stops\n"
        assert not is_alive(self.rank())
        result = self.run.read("results/result.json")
        assert (result["state"], result["cause"]["class"]) == ("failed", "host")
        assert [*result["swept"]] == ["a"]
        assert held.has_lost(str(self.folder))


def has_text(path: Path) -> bool:
    """Whether a shell has written a line to this file, not only created it."""
    return path.exists() and bool(path.read_text())


def here(pid: int) -> str:
    """The command and the folder of a process."""
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        return f"{command} {Path(f'/proc/{pid}/cwd').readlink()}"
    return ""


def send(pids: list[int], sign: signal.Signals) -> None:
    """Signal processes, as far as they are there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sign)


@contextlib.contextmanager
def leased_chief(home: Path, store: S3) -> Iterator[Chief]:
    """The chief of a run that is not started yet; its processes are killed at the end. This process
    has the variables of the store."""
    bucket = f"lost-{os.getpid()}-{next(NUMBERS)}"
    store.make_bucket(bucket)
    stop = {"argv": [["sh", "-c", f"echo chief stops >>{home}/commands"], ["off"]]}
    run = Run(
        home,
        TRAINS,
        bucket={"url": f"s3://{bucket}", "client": "client"},
        stop={**stop, "keep_minutes": 0},
        takeover=True,
    )
    for change in (UPLOADS, STOPS):
        programs.change(run.folder, *change)
    (home / "bin/ssh").write_text(SSH)
    python = home / ".railhead/envs/client/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    run.environ = {**store.environ}
    chief = Chief(run, store, bucket, Terms(upload.destination(f"s3://{bucket}/runs/r1")))
    yield chief
    send(chief.processes(), signal.SIGKILL)
