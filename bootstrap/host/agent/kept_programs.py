"""The archives of programs that a host keeps, so that a command sends the programs once."""

from __future__ import annotations

import contextlib
import os

from ..base import programs
from .files import make_private, replace

NEWEST = 3  # of other versions, and of controllers with another Python


def copy_to(path: str, mode: int) -> None:
    """Copy the archive that this agent is from to a path."""
    with open(programs.ARCHIVE, "rb") as archive:
        make_private(os.path.dirname(path))
        replace(path, archive.read(), mode)


def keep(path: str) -> None:
    """Put the archive that this agent is from into ~/.railhead/programs, whole or not at all. Not
    on a host that no command has prepared: looking at it leaves nothing there."""
    folder = os.path.dirname(path)
    if not os.path.isdir(os.path.dirname(folder)):
        return
    with contextlib.suppress(OSError):  # without it the next agent is sent again
        copy_to(path, 0o600)
        archives = sorted(os.scandir(folder), key=lambda entry: entry.stat().st_mtime)
        for old in archives[:-NEWEST]:
            os.unlink(old.path)
