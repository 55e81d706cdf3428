"""The documents of the lease of a run: who supervises it. Those in the bucket are below the run's
folder: chief/TERM is created once, by the host that gets the term; beat/TERM is written again and
again by this host. A term ends when the next one exists.
"""

from __future__ import annotations

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass
from railhead.documents.names import NAME
from railhead.documents.runs.cause import Cause
from railhead.documents.runs.result import LARGEST, TIME, Attempt

NO_LEASE = "this chief has lost the lease of the run"  # the beginning of a cause


def is_lost_lease(cause: Cause | None) -> bool:
    """Whether a run failed on one chief only, and another host may continue it."""
    return cause is not None and NO_LEASE in cause.evidence


@dataclass(frozen=True)
class Claim:
    """chief/TERM: the host that has the term, and a `mark` that no other claim has."""

    host: str = key(check=NAME)
    mark: str = key(check=NAME)


@dataclass(frozen=True)
class Beat:
    """beat/TERM. `number`: different in each beat; `seconds`: the duration of the run so far;
    `started`: its start, UTC; `attempts`: as in the result."""

    number: int = key(at_least=0, at_most=LARGEST)
    seconds: float = key(at_least=0, at_most=LARGEST)
    started: str | None = key(None, check=TIME)
    attempts: tuple[Attempt, ...] = key((), omit=True)


@dataclass(frozen=True)
class Term:
    """term.json in the folder of a run, on a host that supervises it: its term, its name, and what
    the run had when the term began (in term 1: nothing)."""

    number: int = key(at_least=1, at_most=LARGEST)
    host: str = key(check=NAME)
    mark: str = key(check=NAME)
    seconds: float = key(0.0, at_least=0, at_most=LARGEST)
    started: str | None = key(None, check=TIME)
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True)
class Taken:
    """takeover.json in the folder of a run, on a host that has taken it over: the host that was
    `lost`; `why` no further attempt follows, "" if one does; `seen`: why it counts as lost."""

    lost: str = key(check=NAME)
    why: str = ""
    seen: str = ""
