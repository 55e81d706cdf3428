"""The archives of programs that a host keeps, so that they are sent to it only once."""

from __future__ import annotations

import contextlib
import os

from ..base import programs
from .files import make_private, replace

NEWEST = 3  # of other versions, or from controllers with another Python


def copy_to(path: str, mode: int) -> None:
    """Copy this agent's archive to a path."""
    with open(programs.ARCHIVE, "rb") as archive:
        make_private(os.path.dirname(path))
        replace(path, archive.read(), mode)


def keep(path: str) -> None:
    """Store this agent's archive in ~/.railhead/programs, completely or not at all. Does nothing on
    a host that no command has prepared: to examine a host must leave no files there."""
    folder = os.path.dirname(path)
    if not os.path.isdir(os.path.dirname(folder)):
        return
    with contextlib.suppress(OSError):  # if this fails, the archive is sent again next time
        copy_to(path, 0o600)
        archives = sorted(os.scandir(folder), key=lambda entry: entry.stat().st_mtime)
        for old in archives[:-NEWEST]:
            os.unlink(old.path)
