"""Ends all processes of a run on this host; prints the pids that are left. Standard library only.

A process belongs to a run if it has RAILHEAD_RUN and RAILHEAD_HOME in its environment.
Children inherit both, including those unknown to mpirun (a data loader, a background job).
Endpoints have RAILHEAD_ENDPOINT in place of RAILHEAD_RUN.
Usage: python end_processes.py ID|all [VARIABLE]   -> one JSON line {"ended": 3, "left": []}
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

HOME = os.path.expanduser("~")
MARK = b"RAILHEAD_RUN="
GRACE = 2.0  # seconds between TERM and KILL, and after KILL
FINISHING = b"railhead-finish"  # name of a supervisor that hashes results, then stops machines


def processes(run_id: str) -> list[int]:
    """Pids of the run's processes on this host, without this process; "all" means any run."""
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in numbers if pid != os.getpid() and is_of(pid, run_id)]


def is_of(pid: int, run_id: str) -> bool:
    """Whether a process belongs to the run and to this home (local hosts share a machine).

    A supervisor whose run has ended is not counted: it ends by itself after a bounded time.
    """
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        with open(f"/proc/{pid}/comm", "rb") as name:
            if name.read().rstrip(b"\n") == FINISHING:
                return False
        marks = file.read().split(b"\0")
        if b"RAILHEAD_HOME=" + os.fsencode(HOME) not in marks:
            return False
        runs = [mark.removeprefix(MARK) for mark in marks if mark.startswith(MARK)]
        return bool(runs) and (run_id == "all" or runs[0] == os.fsencode(run_id))
    return False


def end_run(run_id: str) -> dict[str, Any]:
    """Send SIGTERM, wait 2 s, send SIGKILL, wait 2 s; then list the processes that are left."""
    ended = send_signal(run_id, signal.SIGTERM) | send_signal(run_id, signal.SIGKILL)
    drop_secrets_and_streams(run_id)
    left = processes(run_id)
    return {"ended": len(ended - set(left)), "left": left}


def send_signal(run_id: str, sign: signal.Signals) -> set[int]:
    """Signal each process once, also new ones, until none is left or GRACE has passed.

    Returns the pids of all signalled processes.
    """
    signalled: set[int] = set()
    until = time.monotonic() + GRACE
    while (pids := processes(run_id)) and time.monotonic() < until:
        for pid in set(pids) - signalled:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, sign)
        signalled.update(pids)
        time.sleep(0.05)
    return signalled


def drop_secrets_and_streams(run_id: str) -> None:
    """Remove the run's secrets file, and the folders in memory that its data was streamed into."""
    runs = os.path.join(HOME, ".railhead", "runs")
    names = os.listdir(runs) if run_id == "all" and os.path.isdir(runs) else [run_id]
    for name in names:
        with contextlib.suppress(OSError):
            os.remove(os.path.join(runs, name, "secrets.json"))
        for link in glob.glob(os.path.join(glob.escape(runs), name, "streams", "*")):
            with contextlib.suppress(OSError):
                shutil.rmtree(os.readlink(link))
                os.remove(link)


def end_on_all_hosts(run: dict[str, Any], folder: str) -> dict[str, Any]:
    """From the chief: end the run's processes on every host; returns the reply of each.

    The other hosts start first: a new child of this process that has not yet become ssh would be
    taken for a process of the run by the local search.
    """
    names = [host["name"] for host in run["hosts"]]
    others = [(name, start_on_host(run, folder, index + 2)) for index, name in enumerate(names[1:])]
    replies = {names[0]: end_run(run["run_id"])}
    return replies | {name: reply_of(process) for name, process in others}


def start_on_host(
    run: dict[str, Any], folder: str, number: int
) -> subprocess.Popen[bytes] | OSError:
    """Start this script on another host. RAILHEAD_RUN is unset: ssh must not count as the run's."""
    python = f'"$HOME/.railhead/envs/{run["runtime"]["digest"]}/bin/python"'
    script = f'"$HOME/.railhead/runs/{run["run_id"]}/end_processes.py" {run["run_id"]}'
    ssh = ["ssh", "-F", os.path.join(folder, "ssh_config"), f"railhead-{number}"]
    unmarked = {k: v for k, v in os.environ.items() if k != "RAILHEAD_RUN"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    argv = [*ssh, f"exec {python} -I -S {script}"]
    try:
        return subprocess.Popen(argv, env=unmarked, stdin=subprocess.DEVNULL, **pipes)
    except OSError as error:
        return error


def reply_of(process: subprocess.Popen[bytes] | OSError) -> Any:
    """The JSON reply of another host, or {"unknown": reason}."""
    if isinstance(process, OSError):
        return {"unknown": str(process)}
    try:
        text, _ = process.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        return {"unknown": "no answer within 20 seconds"}
    try:
        return json.loads(text.splitlines()[-1])
    except (ValueError, IndexError):
        return {"unknown": text.decode(errors="replace").strip()[-600:]}


if __name__ == "__main__":
    if len(sys.argv) > 2:
        MARK = os.fsencode(sys.argv[2]) + b"="
    print(json.dumps(end_run(sys.argv[1])))
