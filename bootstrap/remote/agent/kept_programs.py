"""The archives of programs that a host keeps, so that a command sends the programs once.

Standard library only, Python 3.10.
"""

from __future__ import annotations

import contextlib
import os

from .. import programs

NEWEST = 3  # of other versions, and of controllers with another Python


def keep(path: str) -> None:
    """Put the archive that this agent is from into ~/.railhead/programs, whole or not at all. Not
    on a host that no command has prepared: looking at it leaves nothing there."""
    folder = os.path.dirname(path)
    if not os.path.isdir(os.path.dirname(folder)):
        return
    with contextlib.suppress(OSError):  # without it the next agent is sent again
        os.makedirs(folder, 0o700, exist_ok=True)
        part = f"{path}.part-{os.getpid()}"
        with open(programs.ARCHIVE, "rb") as archive, open(part, "xb") as file:
            file.write(archive.read())
        os.replace(part, path)
        for old in sorted(os.scandir(folder), key=lambda one: one.stat().st_mtime)[:-NEWEST]:
            os.unlink(old.path)
