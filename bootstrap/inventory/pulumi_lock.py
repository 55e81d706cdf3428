"""The lock of a stack: whether another command of Pulumi works on it, who started it, and where."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket

from railhead.documents.lazy import dataclass

from ..errors import Command, Hint, UsageError
from . import pulumi_cli

SECONDS = 120  # for a command that changes nothing
# Pulumi's own backends print the first, `pulumi stack` on Pulumi Cloud prints the second.
HOLDER = re.compile(r"created by (\S+)@(\S+) \(pid (\d+)\) at (\S+)")
ON_CLOUD = re.compile(r"in progress:\s+Started: ([^\n]+)\s+Requested By: ([^\n]+)")


@dataclass(frozen=True)
class Holder:
    """Who holds a lock, since when, and on which computer; `process` is None if that is not
    known."""

    user: str
    since: str
    computer: str = ""
    process: int | None = None

    def __str__(self) -> str:
        where = f" on {self.computer} (process {self.process})" if self.computer else ""
        return f"{self.user}{where} since {self.since}" + ("" if self.may_live else ", and is gone")

    @property
    def may_live(self) -> bool:
        """Whether the command may still run. That is known only if it runs on this computer."""
        if self.process is None or self.computer != socket.gethostname():
            return True
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True


class Locked(UsageError):
    """Another command of Pulumi works on the stack, or a killed one has locked it."""


def refuse_locked(stack: str, again: Command) -> None:
    """End this command if another command of Pulumi works on the stack, or was killed.

    Args:
        again: the command that is refused.

    Raises:
        Locked: it names who holds the lock, and the two possible next commands.
    """
    # A refresh of a resource that no stack has takes the lock, and changes nothing.
    if not shutil.which("pulumi"):
        return
    nothing = f"urn:pulumi:{stack}::railhead::none::none"
    argv = ("refresh", "--yes", "--skip-preview", "--stack", stack, "--target", nothing)
    process = pulumi_cli.run(*argv, seconds=SECONDS)
    text = process.stdout + process.stderr
    if process.returncode and pulumi_cli.is_locked(text):
        raise locked(stack, text, again)


def locked(stack: str, text: str, again: Command) -> Locked:
    """The error for what Pulumi printed when it refused a locked stack."""
    holders = [Holder(m[1], m[4], m[2], int(m[3])) for m in HOLDER.finditer(text)]
    if not holders and (known := ON_CLOUD.search(pulumi_cli.run("stack", "--stack", stack).stdout)):
        holders = [Holder(known[2].strip(), known[1].strip())]
    by = "; ".join(map(str, holders)) or "Pulumi does not say by whom"
    command = again.plus(stack=stack)
    unlock = Hint(f"pulumi cancel --yes --stack {shlex.quote(stack)} && ", command)
    may_live = not holders or any(holder.may_live for holder in holders)
    hint = Hint(command, "   # when it has ended; if it was killed: ", unlock)
    event = "another Pulumi command works on" if may_live else "a killed Pulumi command has locked"
    return Locked(f"{event} stack {stack}: {by}", hint=hint if may_live else unlock)
