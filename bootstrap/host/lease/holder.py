"""Holds the lease of a run: writes its beats to the bucket while the supervisor lives.

lease.holder FOLDER s3://bucket/runs/ID|gs://bucket/runs/ID

The supervisor starts it with the Python of the uploader's environment. It ends when the lease is
lost, after all processes of the run on this host have ended; or when everything is published and
nobody can take the run over any more.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable

from railhead.documents.runs.run import RunDocument
from railhead.documents.runs.state import RunState
from railhead.documents.runs.takeover import Beat, Term

from ..base import bounded, json_file, programs
from ..base.log_lines import print_line
from ..buckets.folder import bucket_folder
from ..buckets.repeats import outlasting
from ..run import end_processes, held
from ..run.lease import holder
from .terms import Terms, claim_of

LOG = "lease.log"  # not in logs/: it grows after the files in there were hashed
SILENCE = 5.0  # seconds for a request: a dead connection must not cost the lease
PAUSE = 1.0  # seconds between two decisions
MARK = 8  # bytes
ENDING = 30.0  # seconds for the supervisor to end its ranks after it has lost the lease


class LeaseHolder:
    """The holder of the first term. `lives` tells whether the supervisor gives signs of life."""

    def __init__(self, folder: str, term: Term, terms: Terms) -> None:
        self.folder, self.term, self.terms = folder, term, terms
        self.begun, self.number = held.now(), 0
        self.claimed = self.next_term = False

    def hold(self, lives: Callable[[], bool] = lambda: True) -> None:
        """Beat until the lease is lost or released, while `lives`."""
        while self.step(lives()):
            time.sleep(PAUSE)

    def step(self, lives: bool) -> bool:
        """Decide once, and act on it; False: there is nothing left to hold."""
        now, sent, ended = held.now(), held.sent(self.folder), held.is_over(self.folder)
        if sent is None:
            return False
        decision = holder(now, sent, next_term=self.next_term, ended=ended)
        if decision == "lost":
            held.drop(self.folder)
            return False
        if decision == "done":
            return not self.arrives(self.close)
        if not self.claimed or (decision == "beat" and lives):
            self.arrives(lambda: self.beat(now))
        return True

    def arrives(self, request: Callable[[], bool]) -> bool:
        """Whether a request succeeds; prints its error."""
        try:
            return request()
        except Exception as error:  # from the cloud's library; or the lease was lost meanwhile
            print_line(f"{type(error).__name__}: {error}"[:400])
            return False

    def beat(self, now: float) -> bool:
        """Send a beat that starts now; False if another host has the lease."""
        self.claimed = self.claimed or self.terms.claim(self.term.number, claim_of(self.term))
        self.next_term = not self.claimed or self.terms.is_over(self.term)
        if self.next_term:
            return False
        self.terms.write_beat(self.term.number, self.content(now))
        held.renew(self.folder, now)
        return True

    def close(self) -> bool:
        """Called when everything is published: make this term the last one, so that nobody takes
        the run over; False if another host already has."""
        self.next_term = not self.terms.close(self.term)
        if not self.next_term:
            held.release(self.folder)
        return not self.next_term

    def content(self, now: float) -> Beat:
        """The next beat, with the data for a host that takes the run over."""
        self.number += 1
        run = json_file.intact(os.path.join(self.folder, "state.json"), RunState) or self.term
        return Beat(self.number, round(now - self.begun, 1), run.started, run.attempts)


def new_mark() -> str:
    """A mark that no other claim has."""
    return secrets.token_hex(MARK)


def start(run: RunDocument, folder: str, first: Term) -> subprocess.Popen[bytes]:
    """Begin the first term of a run, and start its holder, a process that ends with this one.
    OSError: it cannot be started."""
    held.begin(folder, first, held.now())
    held.stay_alive(folder)
    try:
        command = bounded.command_with_client(run, folder, programs.LEASE_HOLDER)
        return bounded.start_beside(command, os.path.join(folder, LOG))
    except OSError:
        held.forget(folder)
        raise


def end_ranks(folder: str) -> None:
    """Kill the processes of the run on this host that the supervisor has not ended within ENDING
    seconds, or at once if it is frozen; but not the supervisor. Processes that start later may
    belong to the host that took the run over."""
    run_id, supervisor = os.path.basename(folder), os.getppid()
    ranks = {*end_processes.processes(run_id)} - {supervisor}
    until = time.monotonic() + ENDING
    while ranks and not held.is_frozen(folder) and time.monotonic() < until:
        time.sleep(PAUSE)
        ranks &= {*end_processes.processes(run_id)}
    for pid in ranks:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


@outlasting(SILENCE)
def main(folder: str, url: str) -> None:
    """Hold the lease."""
    term = held.term_of(folder)
    assert term
    terms = Terms(bucket_folder(url, silence=SILENCE))
    LeaseHolder(folder, term, terms).hold(lambda: not held.is_frozen(folder))
    if held.has_lost(folder):
        end_ranks(folder)
