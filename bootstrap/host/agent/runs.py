"""Operations on runs and endpoints: follow, place programs, end."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import time
from collections.abc import Iterator

from railhead.documents.agent.runs import (
    DropTemporary,
    EndRun,
    Follow,
    Followed,
    IsRunning,
    LogLine,
    MakeTemporary,
    MetricLine,
    PlacePrograms,
    Running,
    RunNow,
)
from railhead.documents.codec import decode
from railhead.documents.runs.state import RunState
from railhead.documents.runs.swept import OF_RUNS, OF_STANDBYS, Swept

from ..base import programs
from ..base.programs import SUPERVISOR
from ..base.regular_files import open_regular
from .channel import operations, send_event
from .files import text_of
from .kept_programs import copy_to
from .temporary import make_temporary

STARTING = 10.0  # seconds for a new supervisor to write state.json
STOPPED = 60.0  # seconds: if a supervisor is stopped (SIGSTOP) for longer, its run counts as lost
SIGN_OF_LIFE = 10.0  # seconds after which the state is sent again, changed or not


def follow(request: Follow) -> Followed:
    """Send metrics, the state and each rank's last line as events until the run's state is
    final."""
    folder, log = os.path.expanduser(request.folder), request.log
    offset, log_offset = request.offset, request.log_offset
    shown, begun = None, time.monotonic()
    sent = worked = begun
    while True:
        state = text_of(f"{folder}/state.json")
        document = parsed(state)
        for line, end in new_lines(f"{folder}/results/metrics.jsonl", offset):
            offset = end
            send_event(MetricLine(line, offset))
        for line, end in new_lines(f"{folder}/logs/{log}.log", log_offset) if log else ():
            log_offset = end
            send_event(LogLine(line, log_offset))
        last = {**last_lines(f"{folder}/logs"), **unfinished_lines(document)}
        now = RunNow(state, last)
        if now != shown or time.monotonic() > sent + SIGN_OF_LIFE:
            send_event(now)
            shown, sent = now, time.monotonic()
        if document and document.has_ended:
            return Followed(lost=False)
        if document is None or not programs.is_stopped(document.pid):
            worked = time.monotonic()
        elif time.monotonic() >= worked + STOPPED:
            return Followed(lost=True)
        starting = state is None and time.monotonic() < begun + STARTING
        if not starting and is_lost(folder, state, document.pid if document else None):
            return Followed(lost=True)
        time.sleep(0.2)


def parsed(state: str | None) -> RunState | None:
    """state.json; None if it is missing or damaged."""
    with contextlib.suppress(ValueError, RecursionError):
        return decode(RunState, json.loads(state or ""))
    return None


def is_lost(folder: str, state: str | None, pid: int | None) -> bool:
    """Whether this run has no supervisor any more, and `state` is the last state that it wrote.
    Without the `pid` of state.json, all processes are searched for a supervisor."""
    alive = None if pid is None else {programs.process_folder(pid, SUPERVISOR)}
    if folder in (alive or programs.folders_of(SUPERVISOR)):
        return False
    return state == text_of(f"{folder}/state.json")


def place_programs(request: PlacePrograms) -> None:
    """Copy this agent's archive into the folder of a run or an endpoint."""
    copy_to(os.path.expanduser(f"{request.folder}/{programs.NAME}"), 0o644)


def is_running(request: IsRunning) -> Running:
    """Whether a process is this program, started from the folder of a run or an endpoint."""
    folder = programs.process_folder(request.pid, request.program)
    return Running(folder == os.path.expanduser(request.folder))


def drop_temporary(request: DropTemporary) -> None:
    """Remove the temporary folders of a run."""
    from ..run.end_processes import drop_temporary_of

    drop_temporary_of(request.run_id)


def end_all(request: EndRun) -> Swept:
    """End the processes of a run or of an endpoint; first a run's standby, which would continue the
    run."""
    from ..run.end_processes import end_run

    standby = Swept(0, ())
    if request.variable == OF_RUNS:
        standby = end_run(request.run_id, OF_STANDBYS)
    ended = end_run(request.run_id, request.variable)
    return Swept(standby.ended + ended.ended, (*standby.left, *ended.left))


def new_lines(path: str, offset: int) -> Iterator[tuple[str, int]]:
    """Complete lines from byte `offset` on, each with the offset of its end."""
    with contextlib.suppress(OSError), open_regular(path) as file:
        if os.fstat(file.fileno()).st_size < offset:  # the log was rotated
            offset = 0
        file.seek(offset)
        for line in file:
            if line.endswith(b"\n"):
                offset += len(line)
                yield line.decode(errors="replace"), offset


def unfinished_lines(document: RunState | None) -> dict[str, str]:
    """The unfinished lines of ranks, from state.json: progress bars."""
    return {rank: line for rank, line in document.begun.items() if line} if document else {}


def last_lines(folder: str) -> dict[str, str]:
    """The last line of each rank's log. A carriage return of a progress bar starts a new line."""
    last = {}
    for path in glob.glob(f"{glob.escape(folder)}/rank-*.log"):
        with contextlib.suppress(OSError), open_regular(path) as file:
            file.seek(max(0, os.path.getsize(path) - 2000))
            text = file.read().decode(errors="replace").replace("\r", "\n").strip()
            last[os.path.basename(path)[5:-4]] = text.rpartition("\n")[2]
    return last


OPS = operations(
    (Follow, follow),
    (MakeTemporary, make_temporary),
    (DropTemporary, drop_temporary),
    (PlacePrograms, place_programs),
    (IsRunning, is_running),
    (EndRun, end_all),
)
