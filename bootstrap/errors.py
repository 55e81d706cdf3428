"""The errors and their exit codes.

* RailheadError        1   something failed while it ran
  - HostsFailed        1   on some hosts; `outcomes` has every host
    + HostsNotReached  4   some hosts cannot be reached; the others have done their part
  - NoCapacity         4   the cloud has no room for a machine now
  - RunFailed          1   a run failed; result.json has the details
    + RunNotReached    4   the connection to a run was lost; the run continues
    + RunInterrupted 130   also Interrupted; a run may be in progress
  - Interrupted      130   the user stopped the command
  - BelowThreshold     3   the run succeeded and its evaluation did not reach a threshold
  - UsageError         2   a broken rule or an unmet precondition: nothing was started
    + HostsNotReady    2   some hosts cannot be used; `outcomes` has every host
      . NothingReached 4   as they cannot be reached
    + HostsBusy        2   another run or a health check is in progress on a host

An error has a hint, what to type next: commands of `fab` as values. Where it is raised, the rule is
known but not the command line: without the hosts that were typed, `fab stop` would stop the
selected stack instead of that of `--stack`. So the hosts are added when the error is printed.
"""

from __future__ import annotations

import errno
import shlex
from collections.abc import Callable, Mapping
from itertools import chain

from railhead.documents.lazy import dataclass
from railhead.installation import PROGRAM

DONE, FAILED, USAGE, BELOW_THRESHOLD, NOT_REACHED, INTERRUPTED = 0, 1, 2, 3, 4, 130
# What each exit code of the command means, as in docs/tasks.md.
EXIT_CODES: Mapping[int, str] = {
    DONE: "done",
    FAILED: "something failed on a host or in the program; a script's own code is in `result.json`",
    USAGE: "wrong usage, or a precondition is not met: no run was started",
    BELOW_THRESHOLD: "the run succeeded, but its evaluation did not reach a"
    " [threshold](#thresholds) or `min_accuracy`",
    NOT_REACHED: "hosts cannot be reached, or the cloud has no capacity: the same command may"
    " work later",
    INTERRUPTED: "interrupted by Ctrl-C or SIGTERM; the message says what became of the run",
}

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_PATH = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR)


@dataclass(frozen=True, init=False)
class Command:
    """A command: `Command("fetch", run="r1")` is `fab fetch --run r1` in a clone.

    Args:
        task: as it is typed, such as `data push`. values: the positional ones.
        options: underscores become dashes; True is a switch; None, False and "" are left out.
    """

    task: str
    values: tuple[object, ...]
    options: Mapping[str, object]

    def __init__(self, task: str, *values: object, **options: object) -> None:
        object.__setattr__(self, "task", task)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "options", options)

    def __str__(self) -> str:
        values = [shlex.quote(str(value)) for value in self.values]
        return " ".join([PROGRAM, self.task, *values]) + typed_options(self.options)

    def plus(self, **options: object) -> Command:
        """The same command with more options."""
        return Command(self.task, *self.values, **{**self.options, **options})

    def at(self, target: Mapping[str, str]) -> Command:
        """The same command on the hosts that these options name, such as {"stack": "gpu"}; as it is
        if it names its hosts or its run itself."""
        if any(map(self.options.get, ("hosts", "stack", "run"))):
            return self
        return Command(self.task, *self.values, **{**target, **self.options})


@dataclass(frozen=True, init=False)
class Hint:
    """Commands of `fab` and the text between them, one after the other."""

    parts: tuple[str | Command, ...]

    def __init__(self, *parts: Hint | Command | str) -> None:
        flat = (part.parts if isinstance(part, Hint) else (part,) for part in parts)
        object.__setattr__(self, "parts", tuple(chain.from_iterable(flat)))

    def __str__(self) -> str:
        return "".join(map(str, self.parts))

    def completed(self, complete: Callable[[Command], Command]) -> Hint:
        """The same with each command as `complete` returns it."""
        return Hint(*(p if isinstance(p, str) else complete(p) for p in self.parts))


def typed_options(values: Mapping[str, object]) -> str:
    """Options as they are typed after a command, with a space before each."""
    typed = {n: v for n, v in values.items() if v is not False and v not in (None, "")}
    return "".join(f" {_option(name, value)}" for name, value in typed.items())


def _option(name: str, value: object) -> str:
    flag = f"--{name.replace('_', '-')}"
    if value is True:
        return flag
    text = shlex.quote(str(value))
    return f"{flag}={text}" if str(value).startswith("-") else f"{flag} {text}"


class RailheadError(Exception):
    """An error for the user: what failed, and `next`, what to type."""

    code = FAILED

    def __init__(self, message: str, *, hint: Hint | Command | str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next = Hint(hint)

    @property
    def hint(self) -> str:
        """`next` as text."""
        return str(self.next)

    def __str__(self) -> str:
        return self.message + (f"\n  next: {self.hint}" if self.hint else "")


class Terminated(KeyboardInterrupt):
    """SIGTERM was received: as Ctrl-C, but a run that was started continues."""


class RunFailed(RailheadError):
    """A run ended with a failure; the message names the rank, its host and its last lines."""


class RunNotReached(RunFailed):
    """The connection to a run was lost: the run continues."""

    code = NOT_REACHED


class Interrupted(RailheadError):
    """The user stopped the command."""

    code = INTERRUPTED


class RunInterrupted(Interrupted, RunFailed):
    """The user stopped a command that followed a run; the message says whether it continues."""


class BelowThreshold(RailheadError):
    """The evaluation did not reach a threshold: --min, --max, or `min_accuracy` of the settings."""

    code = BELOW_THRESHOLD


class UsageError(RailheadError):
    """A rule was broken or a precondition is not met: nothing was started."""

    code = USAGE


def _per_host(summary: str, outcomes: Mapping[str, str]) -> str:
    width = max(len(name) for name in outcomes)
    lines = []
    for name, outcome in outcomes.items():
        first, *rest = outcome.splitlines() or [""]
        lines.append(f"  {name:<{width}}  {first}")
        lines += [f"  {'':<{width}}  {line}" for line in rest]
    return "\n".join([summary, *lines])


class HostsFailed(RailheadError):
    """Something failed on one or more hosts. `outcomes` has every host, also successful ones."""

    def __init__(
        self, summary: str, outcomes: Mapping[str, str], *, hint: Hint | Command | str = ""
    ) -> None:
        super().__init__(_per_host(summary, outcomes), hint=hint)
        self.outcomes = dict(outcomes)


class HostsNotReached(HostsFailed):
    """Some hosts cannot be reached; the others have done their part."""

    code = NOT_REACHED


class NoCapacity(RailheadError):
    """The cloud has no room for a machine now."""

    code = NOT_REACHED


class HostsBusy(UsageError):
    """Another run is in progress on a host: its machines must not be stopped."""


class HostsNotReady(HostsFailed, UsageError):
    """Some hosts cannot be used; raised before anything was started on any of them."""

    code = USAGE


class NothingReached(HostsNotReached, HostsNotReady):
    """Some hosts cannot be reached; raised before anything was started on any of them."""

    code = NOT_REACHED


def refusal(error: OSError) -> RailheadError | None:
    """The message for a file here that cannot be written or read: the disk is full, the user may
    not, or its path is none. None for any other error."""
    place = error.filename if isinstance(error.filename, str) else None
    if error.errno in _FULL:
        free_space = Hint(
            "free some disk space, then: ", Command("status"), "   # shows the hosts and the run"
        )
        return RailheadError(f"{place or 'this computer'}: {error.strerror}", hint=free_space)
    if error.errno in _FORBIDDEN and place:
        hint = f"ls -ld {shlex.quote(place)}   # whose it is; its folder too"
        return RailheadError(f"{place}: {error.strerror}", hint=hint)
    if error.errno in _NO_PATH and place:
        return UsageError(f"{place}: {error.strerror}")
    return None
