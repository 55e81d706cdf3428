"""What every operation of a host's agent has: its request, reply, events and bounds.

One request is one JSON line, with the name of the operation as `op`; its reply and its events are
JSON lines too. The agent (bootstrap/host/agent) carries them out.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar, get_args

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass

LONGEST_LINE = 64_000_000  # bytes of a line of the agent: all file names of a run, or a log


@dataclass(frozen=True)
class Bounds:
    """The limits of one operation: its longest silence and its total time, in seconds, and the
    bytes that the agent may send."""

    silence: float
    seconds: float
    bytes: float = 2 * LONGEST_LINE


QUICK = Bounds(60, 1800)  # no work on many files
WORK = Bounds(600, 12 * 3600)
COMMAND = Bounds(600, 12 * 3600, 4 * LONGEST_LINE)
LONG = Bounds(3600, 72 * 3600)  # compiles, installs, receives 100 GB
R = TypeVar("R")
E = TypeVar("E")


class Request(Generic[R, E]):
    """An operation with its arguments. `R`: its reply; `E`: its events, NoReturn if it has none."""

    op: ClassVar[str]
    bounds: ClassVar[Bounds]
    reply_kind: ClassVar[Any]
    event_kind: ClassVar[Any]

    def __init_subclass__(cls, op: str, bounds: Bounds = QUICK) -> None:
        super().__init_subclass__()
        cls.op, cls.bounds = op, bounds
        cls.reply_kind, cls.event_kind = get_args(vars(cls)["__orig_bases__"][0])

    def is_answered_by(self, reply: R) -> bool:
        """Whether the reply has an item for each thing that was requested."""
        return True


@dataclass(frozen=True)
class Hello:
    """The first event of an agent, before any request."""

    agent: int
    python: str


@dataclass(frozen=True)
class Failure:
    """Why an operation failed; `errno` is the name of a system error, or empty. `inodes`: the file
    system has space, but no inode for another file."""

    errno: str
    text: str
    inodes: bool = key(False)


@dataclass(frozen=True)
class Chunk:
    """This number of bytes of a file follows."""

    chunk: int = key(at_least=1)
