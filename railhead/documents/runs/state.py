"""state.json: a run that is in progress or has ended, as its chief last saw it."""

from __future__ import annotations

from collections.abc import Mapping

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass
from railhead.documents.runs.cause import Cause
from railhead.documents.runs.result import FINAL, LARGEST, TIME, Attempt
from railhead.documents.runs.stall import Stall


@dataclass(frozen=True)
class Machines:
    """What happens to the machines after the run. `results`: where they are; `until`: the time to
    which the machines are kept; `stopped`: "ok" by host, or why it does not stop; `upload` and
    `checkpoints`: why the results and the last checkpoints are not in the bucket."""

    phase: str
    results: str
    at: str | None = key(None, check=TIME)
    until: str | None = key(None, check=TIME)
    stopped: Mapping[str, str] = key({})
    upload: str | None = key(None, omit=True)
    checkpoints: str | None = key(None, omit=True)


@dataclass(frozen=True, kw_only=True)
class RunState:
    """`pid` is that of the supervisor, `mpirun` that of mpirun; `heartbeat` in seconds since 1970;
    `begun` has the incomplete line of each rank; `reason`: the last line of what failed;
    `cause`: as in the result;
    `attempts`: as in the result; `stall`: while the run makes no progress."""

    state: str = key(choices=("starting", "running", *FINAL))
    pid: int = key(at_least=2, at_most=LARGEST)
    heartbeat: float = key(at_least=0, at_most=LARGEST)
    started: str | None = key(None, check=TIME)
    mpirun: int | None = key(None, omit=True)
    begun: Mapping[str, str] = key({})
    ended: str | None = key(None, check=TIME, omit=True)
    reason: str | None = None
    cause: Cause | None = key(None, omit=True)
    trouble: str | None = None
    machines: Machines | None = key(None, omit=True)
    attempts: tuple[Attempt, ...] = key((), omit=True)
    stall: Stall | None = key(None, omit=True)

    @property
    def has_ended(self) -> bool:
        """Whether the run is over."""
        return self.state in FINAL
