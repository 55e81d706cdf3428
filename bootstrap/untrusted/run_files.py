"""The JSON files that a run's chief writes: state.json, result.json and run.json."""

from __future__ import annotations

from dataclasses import dataclass

from bootstrap.untrusted.decode import parsed
from railhead.documents.codec import key
from railhead.documents.result import Result
from railhead.documents.state import RunState

LONGEST_KEEP = 10**6  # minutes


@dataclass(frozen=True)
class Stop:
    """How long the machines are kept after a run that failed."""

    keep_minutes: int = key(at_least=0, at_most=LONGEST_KEEP)


@dataclass(frozen=True)
class _Run:
    stop: Stop | None = None


def read_state(text: str) -> RunState:
    """Parse state.json; Hostile if it is not valid."""
    return parsed(RunState, text, "a state.json")


def read_result(text: str) -> Result:
    """Parse result.json; Hostile if it is not valid."""
    return parsed(Result, text, "a result.json")


def read_stop(text: str) -> Stop | None:
    """`stop` of a run.json; Hostile if it is not valid."""
    return parsed(_Run, text, "a run.json").stop
