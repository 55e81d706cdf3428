"""Ends every process of a run on this host and says whether any is left. Standard library only.

A process of a run is known by RAILHEAD_RUN and RAILHEAD_HOME in its environment, which its
children inherit, also those that mpirun does not know (a data loader, a shell's background job).
Usage: python sweep.py RUN_ID|all   -> one JSON line {"ended": 3, "left": []}
"""

import contextlib
import json
import os
import signal
import sys
import time

HOME = os.path.expanduser("~")


def processes(run_id, spare=()):
    """Pids of the run's processes on this host; `spare` and we ourselves are left out."""
    mark = b"" if run_id == "all" else run_id.encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in spare or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError), open("/proc/%s/environ" % name, "rb") as f:
            lines = f.read().split(b"\0")
            ours = b"RAILHEAD_HOME=" + HOME.encode() in lines
            if ours and any(x.startswith(b"RAILHEAD_RUN=" + mark) for x in lines):
                found.append(int(name))
    return found


def sweep(run_id, spare=()):
    """TERM, two seconds of grace, KILL, two seconds more; then look again."""
    ended = set()
    for sign in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + 2
        signalled = set()
        while (pids := processes(run_id, spare)) and time.monotonic() < end:
            for pid in set(pids) - signalled:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, sign)
            signalled.update(pids)
            ended.update(pids)
            time.sleep(0.05)
    drop_secrets(run_id)
    left = processes(run_id, spare)
    return {"ended": len(ended - set(left)), "left": left}


def drop_secrets(run_id):
    """No secret outlives its run on a host."""
    runs = os.path.join(HOME, ".railhead", "runs")
    names = os.listdir(runs) if run_id == "all" and os.path.isdir(runs) else [run_id]
    for name in names:
        with contextlib.suppress(OSError):
            os.remove(os.path.join(runs, name, "secrets.json"))


if __name__ == "__main__":
    print(json.dumps(sweep(sys.argv[1])))
