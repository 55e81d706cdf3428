"""The archive of the programs for hosts: the commands that start programs, and how to recognise
them.

A program is a module of this package with a `main`. Runs and endpoints have the archive in their
folder, so a program's command line shows the folder to which it belongs.
"""

from __future__ import annotations

import contextlib
import os
import sys

NAME = "railhead.pyz"
LOCK = "~/.railhead/supervisor.lock"  # held while a run is in progress; contains its id
WHOLE = "whole.json"  # in the chief's folder: the document of the run with all of its hosts
TAKEOVER = "takeover.json"  # on a host that has taken over a run: a `Taken`
REPLACING = "replacing"  # on the chief: the pid of the agent of a command that replaces a host
BUNDLE = "bundle.json"  # in the folder of a run that may start again: the files of its work/
# The programs, by module: the only texts that name modules of this package.
SUPERVISOR, STOP_MACHINES = "supervisor.supervisor", "supervisor.stop_machines"
HELD = "held"  # an argument that makes the supervisor wait
RANK, SPARE = "rank.rank", "rank.spare"
STANDBY, RECLAIM, RESTORE = "standby.standby", "standby.reclaim", "standby.restore"
LEASE_HOLDER, CLUSTER_KEY = "lease.holder", "run.cluster_key"
EVIDENCE, PREPARE, STACKS = "attempts.evidence", "attempts.prepare", "stall.collect"
END_PROCESSES, CLOSING = "run.end_processes", "run.closing"
METRIC_LINES, UNREAD = "output.metric_lines", "output.unread"
UPLOAD, LIVE_UPLOAD = "upload.upload", "upload.live_upload"
RESTORE_CHECKPOINTS = "upload.restore_checkpoints"
ENDPOINT, SERVER, CLIENT = "serve.endpoint", "serve.server", "serve.client"
TENSORBOARD, TENSORFLOW_SERVING = "serve.tensorboard", "serve.tensorflow_serving"
# Their names in earlier versions, whose runs may be in progress.
FORMER = {
    SUPERVISOR: "run.supervisor",
    STOP_MACHINES: "run.stop_machines",
    STANDBY: "takeover.standby",
}
# Makes ssh use an open connection: its socket is in the run's folder, the working directory,
# because a socket's path must be short. Without a socket, ssh connects.
SHARED = ("-o", "ControlPath=%n.ssh")
SHARES = (*SHARED, "-o", "ControlMaster=auto", "-o", "ControlPersist=10")  # seconds; leaves one
ARCHIVE = os.path.abspath(__file__).rpartition("/host/")[0]


def command(program: str, *args: str) -> list[str]:
    """The command of a program of this archive; it needs no packages."""
    return [sys.executable, "-I", "-S", ARCHIVE, program, *args]


def process_folder(pid: int | str, program: str) -> str:
    """The folder with the archive from which a process runs this program; "" if it does not."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        words = os.fsdecode(file.read()).split("\0")
        for word, after in zip(words[:-1], words[1:], strict=True):
            folder, name = os.path.split(word)
            if name == NAME and after in (program, FORMER.get(program)):
                return folder
    return ""


def folders_of(program: str) -> set[str]:
    """The folders from which processes run a program; also "", for other processes."""
    return {process_folder(pid, program) for pid in filter(str.isdigit, os.listdir("/proc"))}


def state_of(pid: int) -> bytes:
    """The letter of a process's state in /proc; b"" if it has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b") ")[2][:1]
    return b""


def is_stopped(pid: int) -> bool:
    """Whether a signal or a debugger has stopped a process."""
    return state_of(pid) in (b"T", b"t")


def leave() -> None:
    """Remove the archive from sys.path and its modules from sys.modules, before a user's program
    with modules of the same names runs in this process. Imported objects still work."""
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != ARCHIVE]
    for name, module in list(sys.modules.items()):
        if name != "__main__" and is_ours(module):
            del sys.modules[name]


def is_ours(module: object) -> bool:
    """Whether a module is one of this archive."""
    file = getattr(module, "__file__", None) or ""
    return file.startswith(os.path.join(ARCHIVE, ""))
