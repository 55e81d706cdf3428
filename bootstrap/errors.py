"""The errors and their exit codes.

* RailheadError        1   something failed while it ran
  - HostsFailed        1   on some hosts; `outcomes` has every host
  - RunFailed          1   a run failed; result.json has the details
  - BelowThreshold     3   the run succeeded and its evaluation did not reach a threshold
  - UsageError         2   a broken rule or an unmet precondition: nothing was started
    + HostsNotReady    2   some hosts cannot be used; `outcomes` has every host
    + HostsBusy        2   another run or a health check is in progress on a host
"""

from __future__ import annotations

import errno
import shlex
from collections.abc import Mapping

from bootstrap.hint import Command, Hint

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


class RailheadError(Exception):
    """An error for the user: what failed, and `next`, what to type."""

    code = 1

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


class BelowThreshold(RailheadError):
    """The evaluation did not reach a threshold: --min, --max, or `min_accuracy` of the settings."""

    code = 3


class UsageError(RailheadError):
    """A rule was broken or a precondition is not met: nothing was started."""

    code = 2


def _per_host(what: str, outcomes: Mapping[str, str]) -> str:
    width = max(len(name) for name in outcomes)
    lines = []
    for name, outcome in outcomes.items():
        first, *rest = outcome.splitlines() or [""]
        lines.append(f"  {name:<{width}}  {first}")
        lines += [f"  {'':<{width}}  {line}" for line in rest]
    return "\n".join([what, *lines])


class HostsFailed(RailheadError):
    """Something failed on one or more hosts. `outcomes` has every host, also successful ones."""

    def __init__(
        self, what: str, outcomes: Mapping[str, str], *, hint: Hint | Command | str = ""
    ) -> None:
        super().__init__(_per_host(what, outcomes), hint=hint)
        self.outcomes = dict(outcomes)


class HostsBusy(UsageError):
    """Another run is in progress on a host: its machines must not be stopped."""


class HostsNotReady(HostsFailed, UsageError):
    """Some hosts cannot be used; raised before anything was started on any of them."""

    code = 2


def refusal(error: OSError) -> RailheadError | None:
    """The message for a file here that cannot be written or read: the disk is full, or the user
    may not. None for any other error."""
    place = error.filename if isinstance(error.filename, str) else None
    if error.errno in _FULL:
        after = Hint(
            "free some disk space, then: ", Command("status"), "   # shows the hosts and the run"
        )
        return RailheadError(f"{place or 'this machine'}: {error.strerror}", hint=after)
    if error.errno in _FORBIDDEN and place:
        hint = f"ls -ld {shlex.quote(place)}   # whose it is; its folder too"
        return RailheadError(f"{place}: {error.strerror}", hint=hint)
    return None
