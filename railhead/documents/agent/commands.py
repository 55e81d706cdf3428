"""Operations of the agent that run commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from railhead.documents.agent.request import COMMAND, Request
from railhead.documents.codec import key
from railhead.documents.lazy import dataclass


@dataclass(frozen=True)
class Line:
    """The latest line of a command's output."""

    line: str


@dataclass(frozen=True)
class Grown:
    """The bytes by which disk use has grown, and those that came over the network meanwhile,
    including those of other programs on the host."""

    grown: int = key(at_least=0)
    received: int = key(at_least=0)


@dataclass(frozen=True)
class CommandResult:
    """A command's exit code and its last lines of output."""

    rc: int
    tail: tuple[str, ...]


@dataclass(frozen=True)
class Run(Request[CommandResult, Line | Grown], op="run", bounds=COMMAND):
    """Run a command and wait for its end; `~` at the start of an argument is the host's home.

    Args:
        text: its standard input.
        timeout: seconds after which it is killed.
        fetches: also send what it has fetched (Grown); one such command at a time.
        lock: a file that it locks, with all that it starts, until these end; another command with
            the same file waits, and meanwhile sends the lines of the one that it waits for.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = key({})
    cwd: str | None = None
    text: str | None = None
    timeout: float | None = None
    fetches: bool = False
    lock: str = ""


@dataclass(frozen=True)
class Started:
    """The process of a command."""

    pid: int


@dataclass(frozen=True)
class Start(Request[Started, NoReturn], op="start"):
    """Start a command that outlives the channel; its output is appended to the file `log`. `held`:
    it waits for an empty line on its standard input, which `Release` writes."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    log: str
    held: bool = False


@dataclass(frozen=True)
class Release(Request[None, NoReturn], op="release"):
    """Let a command that this agent has started `held` continue; without this its standard input
    ends with the agent."""

    pid: int
