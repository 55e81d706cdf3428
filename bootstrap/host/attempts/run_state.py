"""The supervisor's state across the attempts of a run; writes state.json during the run,
result.json at its end.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from railhead.documents.carbon.energy import Carbon, HostEnergy, carbon_of
from railhead.documents.lazy import replace
from railhead.documents.runs.result import Result, RunCost
from railhead.documents.runs.run import OnGrid, Priced, RunDocument
from railhead.documents.runs.state import RunState
from railhead.documents.runs.takeover import Term

from ..base import full_disk, json_file
from ..output.rank_output import WriteErrors
from ..run import checkpoint_files, closing, held, manifest
from ..upload.changes import Changes
from .restarts import Restarts

AGAIN = 300.0  # seconds at least between two starts of the uploads
STARTED = time.monotonic()


def now() -> str:
    """The current time, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class State:
    """Writes state.json during the run, and result.json at its end. On a host that has taken the
    run over, it continues the run's time and attempts."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.write_errors = WriteErrors()
        self.unfinished: list[str] = []
        term = held.term_of(folder)
        self.earlier = term.seconds if term else 0.0  # the duration of the run before this process
        self.restarts = Restarts(term.attempts if term else ())
        self.numbers: dict[str, int] = {}  # how many values each --metric has so far
        self.energy: dict[tuple[str, float], HostEnergy] = {}  # by host and start of a measurement
        self.changes = Changes(self.path(checkpoint_files.FOLDER))
        self.uploads: subprocess.Popen[bytes] | OSError | None = None
        self.uploads_started = -AGAIN
        self.lease: subprocess.Popen[bytes] | None = None
        self.document = RunState(
            state="starting",
            pid=os.getpid(),
            heartbeat=time.time(),
            started=(term and term.started) or now(),
            attempts=self.restarts.attempts,
        )
        with self.counted():
            full_disk.reserve(folder)

    def path(self, name: str) -> str:
        """A path in the run's folder."""
        return os.path.join(self.folder, name)

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count a write in this block that fails; the run continues."""
        try:
            yield
        except OSError as error:
            self.write_errors.add(error)

    def beat(self, **changes: Any) -> None:
        """Write state.json."""
        self.document = replace(self.document, **changes, heartbeat=time.time())
        with self.counted():
            json_file.save(self.path("state.json"), self.document)

    @property
    def run_seconds(self) -> float:
        """The duration of the run so far, over all hosts that supervised it."""
        return time.monotonic() - STARTED + self.earlier

    def start_lease(self, run: RunDocument) -> None:
        """Start to hold the lease of a run that another host may take over. A host that has taken
        the run over holds it already. OSError: it cannot be started."""
        if run.takeover and run.bucket and held.term_of(self.folder) is None:
            from ..lease import holder

            chief, started = run.hosts[0].name, self.document.started
            first = Term(1, chief, holder.new_mark(), started=started)
            self.lease = holder.start(run, self.folder, first)

    def start_uploads(self, run: RunDocument) -> None:
        """Start the uploads of a run, which continue across its attempts; restart them if they have
        ended, for example for lack of memory."""
        is_running = isinstance(self.uploads, subprocess.Popen) and self.uploads.poll() is None
        if run.bucket and not is_running and time.monotonic() - self.uploads_started >= AGAIN:
            from ..upload import live_upload

            self.uploads_started = time.monotonic()
            self.uploads = live_upload.start(run, self.folder)

    def end_uploads(self) -> None:
        """End the uploads before the result."""
        if self.uploads is not None:
            from ..upload import live_upload

            why = live_upload.end(self.uploads, self.folder)
            self.unfinished += [why] if why else []

    def end(self, result: Result) -> None:
        """Write result.json and the final state; on a full disk into the reserved space."""
        full_disk.free_reserve(self.folder)
        seconds = round(self.run_seconds, 1)
        result = replace(
            result,
            started=self.document.started,
            ended=now(),
            seconds=seconds,
            attempts=self.document.attempts,
            carbon=self.carbon(),
            cost=self.cost(seconds),
        )
        self.save_result(result)  # first: `fab cancel` waits for it, but not for the hashes
        listed, why = closing.whole_manifest(self.folder)
        if why:
            self.unfinished.append(why)
            self.save_result(result)
        with self.counted():
            written = manifest.entry_of(self.folder, "results/result.json")  # perhaps just now
            others = (entry for entry in listed.files if entry.path != written.path)
            whole = replace(listed, files=(*others, written))
            json_file.save(self.path("results/manifest.json"), whole)
        self.beat(
            state=result.state,
            ended=result.ended,
            reason=result.culprit.reason if result.culprit else None,
            cause=result.cause,
            trouble=self.trouble(),
            begun={},
        )

    def carbon(self) -> Carbon | None:
        """The carbon of the run on this chief; None if nothing was measured."""
        run = json_file.intact(self.path("run.json"), OnGrid)
        total = carbon_of(self.energy.values(), run.grid if run else None)
        if total and self.earlier:
            total = replace(total, notes=(*total.notes, "left out: before another host took over"))
        return total

    def cost(self, seconds: float) -> RunCost | None:
        """The price of the hosts for the duration of the run; None if no price is known."""
        run = json_file.intact(self.path("run.json"), Priced)
        if run is None:
            return None
        from railhead.money import host  # loaded at the end, to keep the start of a run short

        return host.of_run(run.prices, len(run.hosts), seconds)

    def save_result(self, result: Result) -> None:
        """Write result.json, including failed writes and unfinished steps so far."""
        with self.counted():
            json_file.save(
                self.path("results/result.json"), replace(result, trouble=self.trouble())
            )

    def trouble(self) -> str | None:
        """Failed writes and unfinished steps as text; None if there are none."""
        return "; ".join(filter(None, [self.write_errors.summary(), *self.unfinished])) or None
