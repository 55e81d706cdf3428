"""A stall: a run that makes no progress, and which of its ranks the others wait for.

A part of state.json while it lasts, and of result.json if it ended the run.
"""

from __future__ import annotations

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass

MOST_PLACES = 64  # ranks; logs/stacks.log has all
# What a rank does. `call`: it is in its own code or waits in a call of it; `collective`: it waits
# in an operation of several ranks; `tensorflow`: it computes or waits in TensorFlow; `input`: it
# waits for its input; `serves`: it answers other ranks; `stopped`: by a signal; `silent`: it shows
# no stack; `unreachable`: its host does not answer; `ended`: its process has ended.
DOING = (
    *("call", "collective", "tensorflow", "input", "serves"),
    *("stopped", "silent", "unreachable", "ended"),
)
LONGEST = 10**9  # seconds


@dataclass(frozen=True)
class Place:
    """Where a rank is: the innermost line of its program, as `file`, `line` and `text`, None if
    it is not known. `detail`: the name of the collective, or why there is no line. `busy`: it
    computes, reads or writes."""

    rank: int = key(at_least=0)
    host: str = key()
    doing: str = key(choices=DOING)
    file: str | None = None
    line: int | None = None
    text: str | None = None
    detail: str = ""
    busy: bool = False


@dataclass(frozen=True)
class Stall:
    """`text`: one sentence; `seconds`: since the last progress; `behind`: the ranks that the others
    wait for, none if all are at the same line; `places`: of at most 64 ranks, those that are behind
    first."""

    text: str
    seconds: float = key(at_least=0, at_most=LONGEST)
    behind: tuple[int, ...] = ()
    places: tuple[Place, ...] = ()
