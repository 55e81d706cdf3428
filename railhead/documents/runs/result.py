"""result.json: how a run ended. The supervisor writes it once, at the end of the run.

docs/architecture.md describes each key.
"""

from __future__ import annotations

from collections.abc import Mapping

from railhead.documents.carbon.energy import Carbon
from railhead.documents.cluster import DECIMAL
from railhead.documents.codec import key
from railhead.documents.lazy import dataclass
from railhead.documents.runs.cause import Cause
from railhead.documents.runs.evaluation import NONE, Evaluation, Reported
from railhead.documents.runs.stall import Stall
from railhead.documents.runs.swept import NotSwept, Swept
from railhead.documents.times import moment

FINAL = ("succeeded", "failed", "cancelled")
LINE = 200  # characters of a line of a host in a summary
LARGEST = 10**11  # of a number of seconds: as seconds since 1970 it is the year 5138


def is_time(text: str) -> bool:
    """Whether a text is a time such as 2026-11-22T10:22:43Z."""
    return moment(text) is not None


TIME = (is_time, "a time such as 2026-11-22T10:22:43Z")


@dataclass(frozen=True)
class Culprit:
    """The first failure. `rank` is None if a whole host was lost or mpirun itself failed; a rank
    has `exit`, `signal` or `stall`. `lines`: the last ones that it printed. `stall`: why the run
    was ended, although no rank had failed."""

    rank: int | None
    host: str | None
    lines: tuple[str, ...]
    exit: int | None = key(None, omit=True)
    signal: int | None = key(None, omit=True)
    stall: Stall | None = key(None, omit=True)

    @property
    def reason(self) -> str:
        """One line, with text from the host."""
        return self.stall.text if self.stall else " ".join([*filter(str.strip, self.lines)][-1:])


def other_keras(keras: int) -> int:
    """The Keras that a script needs if it does not run with this one."""
    return 5 - keras


@dataclass(frozen=True)
class Attempt:
    """An attempt that failed, after which the run started again. `kind` keras: with the other
    Keras, because the script needs it; retry: from `from_step`, the step of the newest checkpoint
    (None: the files of a script). `seconds`: its duration; `step`: its last known step; `lost`:
    seconds from that checkpoint to the next attempt; `hosts`: those of the next attempt, if some
    are missing. elastic: terminated to take a host back."""

    keras: int = key(choices=(2, 3))
    culprit: Culprit = key()
    seconds: float = key(at_least=0, at_most=LARGEST)
    kind: str = key("keras", choices=("keras", "retry", "elastic"), omit=True)
    cause: Cause | None = key(None, omit=True)
    step: int | None = key(None, omit=True)
    from_step: int | None = key(None, omit=True)
    lost: float | None = key(None, at_least=0, at_most=LARGEST, omit=True)
    hosts: tuple[str, ...] = key((), omit=True)

    @property
    def other_keras(self) -> int:
        """The Keras of the attempt after this one."""
        return other_keras(self.keras)

    @property
    def summary(self) -> str:
        """One line, with text from the host."""
        if self.kind != "keras":
            checkpoint = (
                "its checkpoint files" if self.from_step is None else f"step {self.from_step}"
            )
            return (
                f"{str(self.cause)[:LINE]} ({self._who}): started again from {checkpoint}{self._on}"
            )
        last = " ".join(self.culprit.lines[-1:])[:LINE]
        return f"Keras {self.keras} failed ({last}): started again with Keras {self.other_keras}"

    @property
    def _on(self) -> str:
        return f" on {', '.join(self.hosts)}"[:LINE] if self.hosts else ""

    @property
    def _who(self) -> str:
        rank = "" if self.culprit.rank is None else f"rank {self.culprit.rank} on "
        return f"{rank}{self.culprit.host or 'mpirun'}"


@dataclass(frozen=True)
class RunCost:
    """The price of the hosts during the run, USD: up to `high` if it is a range. `unknown` are the
    names of what has no price; None for `usd`: nothing has one."""

    usd: str | None = key(None, pattern=DECIMAL)
    high: str | None = key(None, pattern=DECIMAL, omit=True)
    unknown: tuple[str, ...] = key((), omit=True)


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a run has ended. `evaluation`: as the program wrote it; `swept` is by host; `why`: why it
    was cancelled, if not by a user; `cause`: why it failed; `no_restart`: why it did not start
    again; `trouble`: what could not be written or read on the chief; `attempts`: the failed
    attempts before the last one; `carbon`: of what its hosts measured;
    `cost`: of its hosts."""

    schema: int = key(1, doc="1")
    run_id: str = key("", doc="the run")
    state: str = key(choices=FINAL, doc="`succeeded`, `failed` or `cancelled`")
    exit_code: int = key(
        1,
        at_least=-LARGEST,
        at_most=LARGEST,
        doc="the program's exit code as `mpirun` reports it; 128 plus the signal if it was killed",
    )
    culprit: Culprit | None = key(
        None,
        doc="null unless the run failed. `rank` (null for a whole host), `host`, `exit` or"
        " `signal` of the failure, and its last `lines`\nfor a"
        " [stall](troubleshooting.md#a-run-that-stalls): `text`, `seconds` (without a step),"
        " `behind` (the ranks that the others wait for)\nand `places`, for each rank `rank`,"
        " `host`, `doing`, `file`, `line`, `text`, `detail`, `busy`",
    )
    cause: Cause | None = key(
        None,
        omit=True,
        doc="only for a failed run: its `class` ([these](troubleshooting.md#why-a-run-failed)),"
        " the `evidence` (a line, or how the rank ended), `host` and `rank`",
    )
    started: str | None = key(None, check=TIME, doc="times, UTC")
    ended: str | None = key(None, check=TIME, doc="times, UTC")
    seconds: float = key(0.0, at_least=0, at_most=LARGEST, doc="the duration")
    size: int | None = key(None, doc="the number of ranks")
    evaluation: Reported | None = key(
        None,
        doc="the last record of kind `evaluation`, or null; with thresholds also `thresholds`,"
        " `failed`, `passed`",
    )
    why: str | None = key(
        None, doc="why the run was cancelled without a request by a user, otherwise null"
    )
    no_restart: str | None = key(
        None, omit=True, doc="only if the run has retries and failed: why it did not start again"
    )
    trouble: str | None = key(
        None,
        doc="null, or which files could not be written on the chief (how often, and why), and"
        " which results could not be read in time",
    )
    swept: Mapping[str, Swept | NotSwept] = key(
        {},
        doc="for each host: how many processes were terminated at the end (`ended`) and which"
        " remain (`left`), or `unknown`: why it did not answer",
    )
    attempts: tuple[Attempt, ...] = key(
        (),
        omit=True,
        doc="only if the run started again. Each attempt: `keras`, `culprit`, `seconds`,"
        " `kind`\n`kind`: `keras` (the other [Keras](own-script.md#keras-2-or-3)), `retry` ([from a"
        " checkpoint](training.md#runs-that-survive)) or `elastic` (terminated to take a host"
        " back)\nfor a retry: `cause`, the last known `step`, `from_step` (null for a script),"
        " `lost` seconds, and `hosts`, if some are missing",
    )
    cost: RunCost | None = key(
        None,
        omit=True,
        doc="optional: the price of the hosts for `seconds`: `usd`, for a range also `high`;"
        " `unknown`: what has no price",
    )
    carbon: Carbon | None = key(
        None,
        omit=True,
        doc="optional: `method`, `gpu_kwh` (measured), `other_kwh` (CPUs and memory, estimated),"
        " both with the PUE;\n`seconds` measured, of all `machines`; `grid` as in the run document,"
        " or null: then the carbon is not known; `notes`: what is left out",
    )

    @property
    def evaluated(self) -> Evaluation:
        """The evaluation, read leniently."""
        return self.evaluation.read() if self.evaluation else NONE
