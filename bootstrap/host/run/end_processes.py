"""Ends all processes of a run on this host; prints the pids that remain.

A process belongs to a run if it has RAILHEAD_RUN and RAILHEAD_HOME in its environment.
Children inherit both, including those unknown to mpirun (a data loader, a background job).
A child with an emptied environment is recognised by its working directory, in a folder of the run.
Endpoints have RAILHEAD_ENDPOINT in place of RAILHEAD_RUN.
run.end_processes ID|all [VARIABLE [KEPT]]   -> one JSON line {"ended": 3, "left": []}
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Any, TypeVar

from railhead.documents.codec import decode, encode
from railhead.documents.runs.run import RunDocument
from railhead.documents.runs.swept import OF_RUNS, NotSwept, Swept

from ..base import programs
from ..base.children import unmarked
from . import held, ports

HOME = os.path.expanduser("~")
GRACE = 2.0  # seconds between TERM and KILL, and after KILL
REPLY = 20.0  # seconds for the reply of another host
TEMPORARY = ("memory", "tmp")  # links in a run's folder; agent/temporary.py makes them
FINISHING = "railhead-finish"  # name of a supervisor that hashes results, then stops machines
SPARE = "railhead-spare"  # name of a process that an attempt leaves for the next one
T = TypeVar("T")


def processes(run_id: str, variable: str = OF_RUNS, kept: str = "") -> list[int]:
    """Pids of the run's processes on this host, without this process and processes with the name
    `kept`; "all" means any run."""
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    runs = {pid: run_of(pid, variable, kept) for pid in numbers if pid != os.getpid()}
    return [pid for pid, run in runs.items() if run and run_id in (run, "all")]


def run_of(pid: int, variable: str, kept: str = "") -> str:
    """The run of this home (local hosts share a machine) that a process belongs to, or "". A
    supervisor whose run has ended is not counted: it ends by itself after a bounded time."""
    with contextlib.suppress(OSError):
        if owner(pid) != os.geteuid():  # root can read any user's variables, which prove nothing
            return ""
        if name_of(pid) in {FINISHING, kept or FINISHING}:
            return ""
        return marked_run(pid, variable) or (run_by_folder(pid) if variable == OF_RUNS else "")
    return ""


def name_of(pid: int) -> str:
    """The name of a process; "" if it has ended."""
    with contextlib.suppress(OSError):
        return read(pid, "comm").decode(errors="replace").rstrip("\n")
    return ""


def owner(pid: int) -> int:
    """The user of a process; OSError if it has ended. Not the owner of its folder in /proc, which
    may be root."""
    status = read(pid, "status")
    return int(status.partition(b"\nUid:")[2].split()[0])


def read(pid: int, name: str) -> bytes:
    """A file of a process in /proc; OSError if the process has ended or is another user's."""
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()


def marked_run(pid: int, variable: str = OF_RUNS) -> str:
    """The run in a process's environment, or ""."""
    marks = read(pid, "environ").split(b"\0")
    if b"RAILHEAD_HOME=" + os.fsencode(HOME) not in marks:
        return ""
    name = os.fsencode(variable) + b"="
    runs = [mark.removeprefix(name) for mark in marks if mark.startswith(name)]
    return os.fsdecode(runs[0]) if runs else ""


def run_by_folder(pid: int) -> str:
    """The run below whose folder a process works, or "" if somebody who logged in started it. Not
    the run's folder itself: the process that stops the machines after the run works there."""
    runs = os.path.join(os.path.realpath(HOME), ".railhead", "runs", "")
    folder = os.readlink(f"/proc/{pid}/cwd")
    run, below, _ = folder[len(runs) :].partition("/")
    return run if folder.startswith(runs) and below and not is_of_a_login(pid) else ""


def is_of_a_login(pid: int) -> bool:
    """Whether a process has a terminal, or was started over ssh by no process of a run."""
    while pid > 1:
        _, parent, _, _, terminal = read(pid, "stat").rpartition(b") ")[2].split()[:5]
        if terminal != b"0" or read(pid, "comm").startswith(b"sshd"):
            return True
        pid = int(parent)
        with contextlib.suppress(PermissionError):
            if pid > 1 and marked_run(pid):
                return False
    return False


def end_run(run_id: str, variable: str = OF_RUNS, kept: str = "") -> Swept:
    """Send SIGTERM, wait 2 s, send SIGKILL, wait 2 s; then list the remaining processes. Spares are
    ended in the same way, but do not count."""
    signals = (signal.SIGTERM, signal.SIGKILL)
    spares = {pid for pid in processes(run_id, variable, kept) if name_of(pid) == SPARE}
    ended = set[int]().union(*(send_signal(run_id, variable, sign, kept) for sign in signals))
    drop_temporary_of(run_id)
    ports.open_again(run_id)
    remaining = processes(run_id, variable, kept)
    return Swept(len(ended - spares - set(remaining)), tuple(remaining))


def send_signal(run_id: str, variable: str, sign: signal.Signals, kept: str) -> set[int]:
    """Signal each process once, including new ones, until there is none or GRACE has passed.
    Returns the pids of all signalled processes."""
    signalled: set[int] = set()
    until = time.monotonic() + GRACE
    while (pids := processes(run_id, variable, kept)) and time.monotonic() < until:
        for pid in set(pids) - signalled:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, sign)
        signalled.update(pids)
        time.sleep(0.05)
    return signalled


def drop_temporary_of(run_id: str) -> None:
    """Remove the temporary folders of a run; "all" means any run."""
    runs = os.path.join(HOME, ".railhead", "runs")
    names = os.listdir(runs) if run_id == "all" and os.path.isdir(runs) else [run_id]
    for name in names:
        drop_temporary(os.path.join(runs, name))


def drop_temporary(folder: str) -> None:
    """Remove the targets of the links in the run's folder: its secrets, its TMPDIR, and the folders
    in memory into which its data was streamed. The links stay, because each host that shares this
    home has its own folders of these names."""
    import shutil  # loaded at the end of a run: the supervisor loads this module

    with contextlib.suppress(OSError):
        os.remove(os.path.join(folder, "secrets.json"))  # of an earlier version
    for name in (*TEMPORARY, os.path.join("streams", "*")):
        for link in glob.glob(os.path.join(glob.escape(folder), name)):
            if target := own_folder(link):
                shutil.rmtree(target, ignore_errors=True)


def own_folder(link: str) -> str:
    """The target of a link, if it exists and belongs to this user; otherwise ""."""
    with contextlib.suppress(OSError):
        target = os.readlink(link)
        return target if os.lstat(target).st_uid == os.geteuid() else ""
    return ""


def end_on_all_hosts(run: RunDocument, folder: str, kept: str = "") -> dict[str, Swept | NotSwept]:
    """From the chief, end the run's processes on every host of the attempt; returns each host's
    reply. The other hosts start first: the local search would take a new child of this process that
    has not yet become ssh for a process of the run. A chief that has lost the lease of the run ends
    only its own processes: another chief has ranks on the other hosts."""
    if held.has_lost(folder):
        return {run.hosts[0].name: end_run(run.run_id)}
    chief = run.hosts[0].name
    others = [
        (host.name, start_on_host(run, folder, index, kept))
        for index, host in run.present.items()
        if index
    ]
    replies: dict[str, Swept | NotSwept] = {chief: end_run(run.run_id, kept=kept)}
    return replies | {name: reply_of(process) for name, process in others}


def start_on_host(
    run: RunDocument, folder: str, index: int, kept: str = ""
) -> subprocess.Popen[bytes] | OSError:
    """Start this program on another host, without RAILHEAD_RUN: ssh must not count as the run's."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    words = [programs.END_PROCESSES, run.run_id, *([OF_RUNS, kept] if kept else [])]
    # If an attempt may follow, more connections to the hosts will be needed.
    shared = programs.SHARES if kept else programs.SHARED
    argv = command_on_host(run, folder, index, *words, shared=shared)
    try:
        return subprocess.Popen(argv, env=unmarked(), stdin=subprocess.DEVNULL, **pipes)
    except OSError as error:
        return error


def command_on_host(
    run: RunDocument, folder: str, index: int, *words: str, shared: Sequence[str] = programs.SHARED
) -> list[str]:
    """The command on the chief that starts a program on a host of the run; `words`: its name and
    its arguments, which need no quotes."""
    if not index:
        return programs.command(*words)
    python = f'"$HOME/.railhead/envs/{run.runtime.digest}/bin/python"'
    archive = f'"$HOME/.railhead/runs/{run.run_id}/{programs.NAME}"'
    options = shared if os.path.realpath(folder) == os.getcwd() else ()
    ssh = ["ssh", "-F", os.path.join(folder, "ssh_config"), *options, f"railhead-{index + 1}"]
    return [*ssh, f"exec {python} -I -S {archive} {' '.join(words)}"]


def document_of(kind: type[T], output: str | bytes) -> T:
    """The document in the last line that a program has printed on another host. ValueError: there
    is none."""
    try:
        return decode(kind, json.loads(output.splitlines()[-1]))
    except (IndexError, RecursionError) as error:
        raise ValueError(str(error)) from None


def reply_of(process: subprocess.Popen[bytes] | OSError) -> Swept | NotSwept:
    """The reply of another host."""
    if isinstance(process, OSError):
        return NotSwept(str(process))
    try:
        text, _ = process.communicate(timeout=REPLY)
    except subprocess.TimeoutExpired:
        process.kill()
        return NotSwept(f"no answer within {REPLY:g} seconds")
    try:
        return document_of(Swept, text)
    except ValueError:
        return NotSwept(text.decode(errors="replace").strip()[-600:])


def main(run_id: str, variable: str = OF_RUNS, kept: str = "") -> None:
    """End the processes, and print the outcome."""
    print(json.dumps(encode(end_run(run_id, variable, kept))))
