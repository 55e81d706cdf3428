"""Whether a run starts again after a failed attempt, and how."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping

from railhead.documents.lazy import dataclass, replace
from railhead.documents.runs.cause import Cause
from railhead.documents.runs.manifest import Outputs
from railhead.documents.runs.result import Attempt, Result, other_keras
from railhead.documents.runs.run import BuiltIn, RunDocument, RunHost, Script

from ..base import bounded, json_file
from ..base.programs import REPLACING, SHARED, WHOLE
from ..causes import keras_errors
from ..causes.retry import NEVER, REPEATED
from ..run import controller, end_processes, time_left
from ..upload.changes import Changes
from . import elastic, points, prepare
from .elastic import absent_hosts
from .points import BEGINNING, Checkpoints, Point

BACK = 600.0  # seconds in which a lost host must come back
AGAIN = 5.0  # seconds between two tries to prepare it
# Tolerance in seconds between the times of a record and of the checkpoint of its step: the rank's
# helper reads a line after it was printed, and a file has the time of the kernel's last tick.
TOGETHER = 0.05
NO_CHECKPOINT = "it has no checkpoint; --retries N starts a run again from its beginning"
FRESH = 30.0  # seconds; an agent removes temporary folders that are twice as old
COPYING = 6 * 3600.0  # seconds for the checkpoint files of a script to reach the other hosts
# Incomplete files and folders, whose names begin with a dot, stay on the chief.
COPY = f"""tar -C checkpoints --exclude './.*' --exclude '*/.*' -cf - . |
ssh -F ssh_config {" ".join(SHARED)} "$1" "cd && tar -C .railhead/runs/$2/checkpoints -xf -" """


@dataclass(frozen=True)
class Times:
    """Seconds of an attempt so far, of all attempts of its run, and until its first step (None: it
    has none)."""

    seconds: float
    run_seconds: float
    first_step: float | None


@dataclass(frozen=True)
class Ended:
    """A failed attempt. `retry`: from the table of causes; `stepped`: its output shows a step;
    `step`: the last one. `tick` is called during waits for hosts; `cancelled`: whether the run has
    been cancelled meanwhile. `grows`: the attempt was terminated to take a host back. `changes`:
    the watcher of the checkpoint folder."""

    run: RunDocument
    folder: str
    result: Result
    retry: str
    times: Times
    stepped: bool
    step: int | None
    outputs: Outputs
    secrets: Mapping[str, str]
    tick: Callable[[], None]
    cancelled: Callable[[], bool]
    grows: bool = False
    changes: Changes | None = None


@dataclass(frozen=True)
class Decision:
    """The failed attempt, if the run starts again; otherwise `why` it does not, "" where that is
    obvious. `trouble`: what prevented a start with the other Keras. `since`: a script repeats its
    records after this time; None for the built-in training, which reports where it continues."""

    attempt: Attempt | None = None
    why: str = ""
    trouble: str = ""
    since: float | None = None


class Restarts:
    """Decides after each failed attempt of a run; remembers the earlier ones."""

    def __init__(self, attempts: tuple[Attempt, ...] = ()) -> None:
        self.attempts = attempts
        self.began = BEGINNING  # where the last attempt continued
        self.tried = sum(attempt.kind == "retry" for attempt in attempts)  # since a new checkpoint
        self.error: tuple[str, Point] | None = None  # of the last attempt, and its last checkpoint
        self.start_seconds = 0.0  # until the first step: the longest so far
        self.unfit: set[str] = set()  # hosts that stayed absent after an attempt was ended for them

    def decide(self, ended: Ended) -> Decision:
        """Prepare the hosts for another attempt, or say why there is none."""
        if ended.result.state != "failed":
            return Decision()
        culprit = ended.result.culprit
        assert culprit
        failed = Attempt(ended.run.keras, culprit, round(ended.times.seconds, 1))
        checkpoints = points.checkpoints(ended.folder, ended.changes)
        point = checkpoints.newest
        if ended.run.keras_auto and keras_errors.is_of_keras(
            ended.run.keras, culprit, ended.times.seconds, stepped=ended.stepped, files=point.files
        ):
            return self._with_other_keras(ended, failed)
        if not ended.run.retries:
            return Decision()
        if point is BEGINNING and not ended.run.retries_from_start:
            cause = ended.result.cause
            is_plain = ended.retry == NEVER or (cause and cause.class_ == "program")
            return Decision(why="" if is_plain else NO_CHECKPOINT)
        if point != self.began:
            self.tried = 0
        if not ended.grows and (why := self._refusal(ended, checkpoints)):
            return Decision(why=why)
        self.error = (_key(ended.result.cause), point)
        run, why = _hosts_with_checkpoints(ended, point)
        if why:
            end_processes.end_on_all_hosts(run, ended.folder)  # some have secrets again
            return Decision(why=why)
        lost = time.time() - (point.completed or time.time() - ended.times.seconds)
        if ended.grows:
            self.unfit |= {str(culprit.host)} & {*absent_hosts(run)}
        failed = replace(
            failed,
            kind="elastic" if ended.grows else "retry",
            cause=ended.result.cause,
            step=ended.step,
            from_step=point.step,
            lost=round(max(0.0, lost), 1),
            hosts=tuple(h.name for h in run.present.values()) if absent_hosts(run) else (),
        )
        self.began, self.attempts = point, (*self.attempts, failed)
        self.tried += not ended.grows
        since = point.begun + TOGETHER if isinstance(ended.run.program, Script) else None
        return Decision(failed, since=since)

    def _with_other_keras(self, ended: Ended, failed: Attempt) -> Decision:
        """Prepare the hosts for the other Keras, as before the start."""
        keras = other_keras(ended.run.keras)
        why = prepare.written(ended.folder, ended.outputs)
        if not why:
            run = replace(ended.run, keras=keras, keras_auto=False)
            start = prepare.Start(run, ended.folder, ended.secrets, as_new=True)
            why = "; ".join(map(str, prepare.prepare_hosts(start, ended.cancelled)))
            if why:
                end_processes.end_on_all_hosts(ended.run, ended.folder)  # they have secrets again
        if why:
            return Decision(trouble=f"not started again with Keras {keras}: {why}")
        self.attempts = (*self.attempts, failed)
        return Decision(failed)

    def lacks_time(self, run: RunDocument, checkpoints: Checkpoints, times: Times) -> str:
        """Why there is no time for another attempt; "" if there is, or no limit."""
        self.start_seconds = max(self.start_seconds, times.first_step or 0.0)
        remaining = time_left.seconds_left(run, times.run_seconds)
        interval = _interval(run, checkpoints, times.seconds)
        return time_left.too_late(remaining, self.start_seconds, interval)

    def _refusal(self, ended: Ended, checkpoints: Checkpoints) -> str:
        """Why the run does not start again; "" if it may."""
        run, point = ended.run, checkpoints.newest
        progressed = ended.stepped or point != self.began
        is_bug = ended.retry == REPEATED and ended.result.cause
        if ended.retry == NEVER or (is_bug and is_bug.class_ == "program" and not progressed):
            return "the same error would come again"
        if is_bug and self.error == (_key(ended.result.cause), point):
            return "the same error came twice after the same checkpoint"
        if run.retries <= self.tried:
            return f"it was started again {self.tried} times without a new checkpoint (--retries)"
        is_stall = ended.result.cause and ended.result.cause.class_ == "stall"
        if is_stall and run.on_stall != "restart":
            return "it made no progress; --on-stall restart starts it again"
        return self.lacks_time(run, checkpoints, ended.times)


def _key(cause: Cause | None) -> str:
    """A cause without the numbers that differ each time."""
    return re.sub(r"\d+", "#", str(cause))


def _interval(run: RunDocument, checkpoints: Checkpoints, seconds: float) -> float:
    """Seconds between two checkpoints: as measured in this attempt, which took `seconds`, otherwise
    as configured. Checkpoints from before the attempt do not count."""
    measured = checkpoints.interval(time.time() - seconds)
    if measured is None and isinstance(run.program, BuiltIn):
        minutes = run.program.settings.get("checkpoint_minutes")
        return 60.0 * minutes if isinstance(minutes, (int, float)) else 0.0
    return measured or 0.0


def _hosts_with_checkpoints(ended: Ended, point: Point) -> tuple[RunDocument, str]:
    """Prepare the hosts; for a script, also copy the chief's checkpoint files to them, as in a
    resume. Returns the document of the next attempt, and why this failed, or "".

    A copy may take hours, and the run has no process meanwhile: an agent that starts on a host then
    removes the run's temporary folders once they are no longer FRESH. So the hosts are prepared
    again after each copy, until every host that is ready has one. An elastic run continues without
    the hosts that get none.
    """
    copies, absent = set[RunHost](), set[str]()
    while True:
        begun = time.monotonic()
        run, why = _hosts_ready(ended, absent)
        if why or not isinstance(ended.run.program, Script) or not point.files:
            return run, why
        lacking = {n: host for n, host in run.present.items() if n and host not in copies}
        if not lacking:
            return run, ""
        for index, host in lacking.items():
            if not (why := _copied(run, ended, index)):
                copies.add(host)
            elif _may_continue(run, ended, absent | {host.name}):
                absent.add(host.name)  # and its secrets are removed again
                end_processes.reply_of(end_processes.start_on_host(run, ended.folder, index))
            else:
                return run, f"{host.name}: {why}"
        if copies.issuperset(lacking.values()) and time.monotonic() - begun < FRESH:
            return run, ""


def _may_continue(run: RunDocument, ended: Ended, absent: Collection[str]) -> bool:
    """Whether an elastic run may continue without these hosts."""
    is_enough = run.elastic and len(run.hosts) - len(absent) >= run.elastic
    return bool(is_enough) and run.hosts[0].name not in absent and not ended.cancelled()


def _hosts_ready(ended: Ended, without: Collection[str] = ()) -> tuple[RunDocument, str]:
    """Prepare the hosts; returns the document of the next attempt, and why this failed, or "". All
    hosts but those of `without` are tried. An elastic run continues without hosts that cannot be
    prepared; otherwise hosts that do not answer get BACK seconds, and more while a command replaces
    hosts."""
    absent = {*without}
    until = time.monotonic() + BACK
    while True:
        whole = elastic.whole(ended.folder)  # a host that was created again has another address
        whole = replace(whole, keras=ended.run.keras, keras_auto=ended.run.keras_auto)
        run = elastic.without(whole, absent)
        start = prepare.Start(run, ended.folder, ended.secrets)
        faults = prepare.prepare_hosts(start, ended.cancelled)
        if not faults:
            return run, _place(ended.folder, whole, run)
        ended.tick()
        faulty = {fault.host for fault in faults}
        if _may_continue(run, ended, absent | faulty):
            absent |= faulty
            continue
        if controller.is_connected(os.path.join(ended.folder, REPLACING)):
            until = time.monotonic() + BACK
        may_come = all(fault.unreachable for fault in faults)
        if not may_come or ended.cancelled() or time.monotonic() > until:
            return run, "; ".join(map(str, faults))
        time.sleep(AGAIN)


def _place(folder: str, whole: RunDocument, run: RunDocument) -> str:
    """Write mpirun's files for the hosts of an elastic run; returns why this failed, or "". If
    there is a document of all hosts, it is read again: a command that replaces an absent host may
    have written its new address while the others were prepared."""
    if not run.elastic:
        return ""
    path = os.path.join(folder, WHOLE)
    try:
        before = json_file.if_any(path, RunDocument)
        now = replace(before or whole, keras=run.keras, keras_auto=run.keras_auto)
        if now != before:
            json_file.save(path, now)
        elastic.place(folder, run)
    except (OSError, ValueError) as error:
        return str(error)
    return ""


def _copied(run: RunDocument, ended: Ended, index: int) -> str:
    """Copy the chief's checkpoint files to another host; a cancel or --max-hours ends this. Returns
    why it failed, or ""."""
    argv = ["sh", "-c", f"cd {shlex.quote(ended.folder)} && {COPY}", "copy"]
    argv += [f"railhead-{index + 1}", run.run_id]
    until = time.monotonic() + COPYING
    try:
        process = bounded.start_beside(argv, os.devnull)
    except OSError as error:
        return str(error)
    while process.poll() is None:
        ended.tick()
        if ended.cancelled() or time.monotonic() > until:
            os.killpg(process.pid, signal.SIGKILL)
            return "the checkpoints did not arrive in time"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
    return "the checkpoints did not arrive" if process.returncode else ""
