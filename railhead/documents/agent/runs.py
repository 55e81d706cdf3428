"""Operations of the agent on runs and endpoints: their programs, processes and reports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NoReturn

from railhead.documents.agent.request import WORK, Bounds, Request
from railhead.documents.codec import key
from railhead.documents.lazy import dataclass
from railhead.documents.runs.swept import OF_RUNS, Swept


@dataclass(frozen=True)
class MetricLine:
    """A line of metrics.jsonl, and the byte after it."""

    metrics: str
    offset: int = key(at_least=0)


@dataclass(frozen=True)
class LogLine:
    """A line of the log, and the byte after it."""

    log: str
    log_offset: int = key(at_least=0)


@dataclass(frozen=True)
class RunNow:
    """The text of state.json, and the last line of each rank."""

    state: str | None
    last: Mapping[str, str]


RunEvent = MetricLine | LogLine | RunNow


@dataclass(frozen=True)
class Followed:
    """The reply of `Follow`. `lost`: the supervisor died before the run had ended."""

    lost: bool


@dataclass(frozen=True)
class Follow(
    Request[Followed, RunEvent],
    op="follow",
    bounds=Bounds(120, math.inf, math.inf),  # an event comes every 10 s; a run may take weeks
):
    """Send what a run reports until it ends: its metrics from byte `offset` on, its state, and with
    `log` (rank-0) the lines of this log from byte `log_offset` on."""

    folder: str
    offset: int = 0
    log: str | None = None
    log_offset: int = 0


@dataclass(frozen=True)
class MakeTemporary(Request[None, NoReturn], op="make_temporary"):
    """Create the temporary folders of a run."""

    folder: str


@dataclass(frozen=True)
class DropTemporary(Request[None, NoReturn], op="drop_temporary_of"):
    """Remove the temporary folders of a run."""

    run_id: str


@dataclass(frozen=True)
class PlacePrograms(Request[None, NoReturn], op="place_programs"):
    """Put the archive of the agent, with the programs of a host, into a folder."""

    folder: str


@dataclass(frozen=True)
class Running:
    """Whether a program runs."""

    running: bool


@dataclass(frozen=True)
class IsRunning(Request[Running, NoReturn], op="is_running"):
    """Find whether a process is this program (host/base/programs.py) of a run or an endpoint."""

    pid: int
    folder: str
    program: str


@dataclass(frozen=True)
class EndRun(Request[Swept, NoReturn], op="end_run", bounds=WORK):
    """End every process of a run ("all": of any run); with another `variable` in their environment
    those of an endpoint."""

    run_id: str
    variable: str = OF_RUNS
