"""Runs on the second host of a run: watches the lease of its chief, and continues the run if the
chief is lost.

standby.standby   in the run's folder, with the Python of the uploader's environment

Its environment has RAILHEAD_STANDBY in place of RAILHEAD_RUN: the end of an attempt does not end
it, `fab cancel` and `fab teardown` do. After a takeover it becomes the supervisor.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from railhead.documents.agent.runs import MakeTemporary
from railhead.documents.lazy import replace
from railhead.documents.runs.run import RunDocument
from railhead.documents.runs.swept import OF_RUNS, OF_STANDBYS
from railhead.documents.runs.takeover import Taken, Term

from ..agent import files
from ..agent.temporary import make_temporary
from ..base import bounded, full_disk, json_file, programs
from ..base.log_lines import print_line
from ..buckets.folder import BucketFolder, bucket_folder
from ..lease.holder import new_mark
from ..lease.terms import Terms, Watch, claim_of
from ..run import cluster_key, end_processes, held, lease, manifest, time_left
from .restore import RESTORED

RUN = os.getcwd()  # the run's folder
SECRETS = "memory/secrets.json"  # in the run's folder, for the supervisor
RESTORING = 3600.0  # seconds: GPUs cost money meanwhile
T = TypeVar("T")


def path(name: str) -> str:
    """A path in the run's folder."""
    return os.path.join(RUN, name)


def main() -> None:
    """Watch, and take over the run if its chief is lost."""
    run = json_file.read(path(programs.WHOLE), RunDocument)
    # Take the secrets now: the end of an attempt would remove their file.
    standby = Standby(run, json_file.take(path(SECRETS)) if run.secrets else {})
    cluster_key.hold()()
    with contextlib.suppress(OSError):
        full_disk.reserve(RUN)  # to lead the run even on a full disk
    json_file.save(path(manifest.BEFORE), manifest.snapshot(RUN))
    step = standby.watch_until_it_ends()
    print_line(f"standby: {step}")
    if step == "claim":
        standby.take_over()
    full_disk.free_reserve(RUN)


class Standby:
    """The standby of a run. The run document here has the hosts in the standby's order: this one
    first, the chief last."""

    def __init__(self, run: RunDocument, secrets: Mapping[str, str]) -> None:
        assert run.bucket
        self.run, self.secrets = run, secrets
        self.url = run.bucket.place_of(run.run_id)
        self.bucket: BucketFolder = bucket_folder(self.url)
        self.terms = Terms(self.bucket)
        self.begun = held.now()
        self.watch = Watch(self.terms, self.begun, self.begun)
        self.mark = new_mark()  # the same for all tries of the claim
        self.failed = ""  # the last error of the bucket since the last beat

    def watch_until_it_ends(self) -> str:
        """Watch the lease until the chief is lost (`claim`) or the run is over (`end`); even after
        the run's time limit, because a chief that is lost then does not stop the machines."""
        while (step := self.watch.decision(held.now())) == "watch":
            beat = self.watch.beat
            try:
                self.watch.look(held.now())
            except Exception as error:  # from the cloud's library: nothing is known
                self.failed = f"{type(error).__name__}: {error}"[:400]
                print_line(self.failed)
            if self.watch.beat != beat:
                self.failed = ""
            time.sleep(lease.RENEW)
        return step

    def seen(self) -> str:
        """Why the chief counts as lost: perhaps only the bucket was out of its reach."""
        seconds = held.now() - self.watch.seen
        text = f"no sign of life of it in the bucket for {seconds:.0f} s"
        return f"{text}, which did not answer here either: {self.failed}" if self.failed else text

    def seconds(self) -> float:
        """The duration of the run so far."""
        if beat := self.watch.beat:
            return beat.seconds + held.now() - self.watch.seen
        return held.now() - self.begun

    def take_over(self) -> None:
        """Claim the next term, restore the run, and become its supervisor, which starts the next
        attempt, or reports why it does not."""
        if not (term := self.insist(self.begin_term)):
            print_line("standby: it does not lead the run")
            return
        end_processes.end_run(self.run.run_id)  # ranks of the lost attempt
        why = self.restored(term)
        if self.insist(lambda: self.write_files(why, term)):
            become_supervisor(self.run.run_id)

    def insist(self, act: Callable[[], T]) -> T | None:
        """The result of `act`, which no other host can do; repeats it after a pause if it fails.
        None if it has failed for too long."""
        until = held.now() + lease.CUT_OFF
        while held.now() < until:
            try:
                return act()
            except Exception as error:  # from the cloud's library; or the disk is full
                print_line(f"{type(error).__name__}: {error}"[:400])
            time.sleep(lease.RENEW)
        return None

    def begin_term(self) -> Term | None:
        """Claim the last term and begin it; None if another host has it: a standby, or the chief,
        whose run has ended."""
        beat, claimed = self.watch.beat, held.now()
        term = Term(
            lease.LAST,
            self.run.hosts[0].name,
            self.mark,
            self.seconds(),
            beat.started if beat else None,
            beat.attempts if beat else (),
        )
        if not self.terms.claim(term.number, claim_of(term)):
            return None
        full_disk.free_reserve(RUN)
        held.begin(RUN, term, claimed)
        return term

    def restored(self, term: Term) -> str:
        """Restore the run within its remaining time; returns why this failed, or ""."""
        remaining = time_left.seconds_left(self.run, self.seconds())
        seconds = max(0.0, min(RESTORING, RESTORING if remaining is None else remaining))
        command = bounded.command_with_client(self.run, RUN, programs.RESTORE, str(term.number))
        ended = bounded.run(command, seconds)
        if not ended.why:
            return ""
        print_line(ended.err)
        shutil.rmtree(path(RESTORED), ignore_errors=True)  # it may have filled the disk
        return f"{self.bucket.uri} was not restored: {ended.why}"[:400]

    def write_files(self, why: str, term: Term) -> bool:
        """Write the files for the supervisor. `why`: why it must not start another attempt, or
        ""."""
        now = json_file.read(path("run.json"), RunDocument)  # the last attempt's
        whole = json_file.read(path(programs.WHOLE), RunDocument)  # may have a new host
        whole = replace(whole, keras=now.keras, keras_auto=now.keras_auto, takeover=False)
        make_temporary(MakeTemporary(RUN))
        if self.secrets:
            files.replace(path(SECRETS), json.dumps(dict(self.secrets)).encode(), 0o600)
        json_file.save(path(programs.WHOLE), whole)
        json_file.save(path("run.json"), whole)
        json_file.save(path(programs.TAKEOVER), Taken(whole.hosts[-1].name, why, self.seen()))
        json_file.save(path(held.TERM), replace(term, seconds=self.seconds()))
        return True


def become_supervisor(run_id: str) -> None:
    """Replace this program by the supervisor, marked as a process of the run."""
    environment = {name: text for name, text in os.environ.items() if name != OF_STANDBYS}
    environment |= {OF_RUNS: run_id, "TMPDIR": path("tmp")}
    os.execve(sys.executable, programs.command(programs.SUPERVISOR), environment)
