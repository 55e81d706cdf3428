"""Folders of a run outside the run's folder, removed when the run ends: `memory`, for its secrets,
is in memory if the host has such a file system; `tmp` is the TMPDIR of its processes.

Both are links in the run's folder. The real folders have random, short names: a socket's path has
at most 107 bytes, and programs put sockets into TMPDIR.
"""

from __future__ import annotations

import contextlib
import glob
import os
import stat
import tempfile
import time

from railhead.documents.agent.runs import MakeTemporary

MEMORY = "/dev/shm"
LONGEST = 40  # bytes
STARTING = 60.0  # seconds after which a run that has no process has ended


def make_temporary(request: MakeTemporary) -> None:
    """Create both folders of a run, each accessible to the user alone. Hosts that share a home
    share the links: the folder then gets the name in the link."""
    folder = os.path.expanduser(request.folder)
    memory = MEMORY if os.access(MEMORY, os.W_OK | os.X_OK) else folder
    for name, parent in (("memory", memory), ("tmp", short_temporary())):
        link = os.path.join(folder, name)
        target = tempfile.mkdtemp(prefix="railhead-", dir=parent)
        try:
            os.symlink(target, link)
        except FileExistsError:
            os.rmdir(target)
            make_own(os.readlink(link))


def short_temporary() -> str:
    """The folder for temporary files, or /tmp if its name is too long to put a socket below it."""
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(usual)) <= LONGEST or not os.access("/tmp", os.W_OK) else "/tmp"


def make_own(folder: str) -> None:
    """Create a folder that only the user can access; OSError if the path exists and is not such a
    folder."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    status = os.lstat(folder)
    private = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
    if not private or status.st_uid != os.geteuid():
        raise PermissionError(f"{folder} is not this user's alone")


def drop_temporary_of_ended() -> None:
    """Remove the folders of all runs of this home that have ended, as after a kill of their
    supervisor."""
    from ..run.end_processes import TEMPORARY, drop_temporary, own_folder, processes

    runs = os.path.expanduser("~/.railhead/runs")
    links = [x for name in TEMPORARY for x in glob.glob(f"{glob.escape(runs)}/*/{name}")]
    for run in {os.path.dirname(link) for link in links if is_old(link) and own_folder(link)}:
        if not processes(os.path.basename(run)):
            drop_temporary(run)


def is_old(link: str) -> bool:
    """Whether a link was created a while ago; the processes of a run start a moment after the
    link."""
    with contextlib.suppress(OSError):
        return time.time() - os.lstat(link).st_mtime > STARTING
    return False
