"""How much later the first step comes with `fab train` than with mpirun alone, and where that goes;
and what `fab status` and `fab --list` take.

    python -m benchmarks.start [--rounds 5]

Two local hosts that are ready. The script only joins MPI and prints the time; both sides start it
in turns, with the same Python, hosts and options of mpirun. `fab train` counts from the start of
its process. Fabric alone is a Python that imports Fabric and runs `true` on both hosts at once: no
command that is built on Fabric can be faster. `fab --list` stands beside Fabric's own over a file
of one task. Exit 3 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

from benchmarks.figures import Figure, emit
from bootstrap.clouds.local import cluster as local_cluster
from bootstrap.inventory import caches, local_state
from bootstrap.runs.launch import SSH

FAB = Path(sys.executable).with_name("fab")
LIMIT = 0.5  # seconds
TIMES_FABRIC = 2
ONE_TASK = "from fabric import task\n\n\n@task\ndef one(c):\n    pass\n"
STATUS_LIMIT = 0.6  # seconds
TIMES_LIST = 1.1
FABRIC = (sys.executable, "-c", "from fabric.main import program; program.run()")
BOUND = 120  # seconds of one mpirun
STEP = """
import ctypes, os, time
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
world = ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world"))
mpi.MPI_Barrier(world)
print("step", time.time(), flush=True)
mpi.MPI_Finalize()
"""
FABRIC_ALONE = """
import sys, threading
from fabric import Connection
def one(user, address, port, key):
    options = {"key_filename": key, "look_for_keys": False, "allow_agent": False}
    with Connection(address, user, int(port), connect_kwargs=options) as host:
        host.run("true", hide=True, in_stream=False)
threads = [threading.Thread(target=one, args=text.split(",")) for text in sys.argv[1:]]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
FOUND = re.compile(r"step (\d+\.\d+)")


def ready(home: Path) -> None:
    """Two local hosts that `fab bootstrap` has made ready, in this home."""
    folder = caches.cache("uv").parent
    os.environ |= {"HOME": str(home), "XDG_CACHE_HOME": str(folder.parent)}
    (home / "work").mkdir(exist_ok=True)
    (home / "work" / "step.py").write_text(STEP)
    (home / "other").mkdir()
    (home / "other" / "fabfile.py").write_text(ONE_TASK)
    local_cluster.start("start", 2)
    local_state.save_cluster(local_state.load_cluster("start"))
    subprocess.run([str(FAB), "bootstrap"], cwd=home / "work", check=True)


def ours(home: Path) -> tuple[float, dict[str, float]]:
    """Seconds to the first step of `fab train`, and the seconds of its parts."""
    begin = time.time()
    argv = [str(FAB), "train", "--script", "step.py"]
    done = subprocess.run(argv, cwd=home / "work", text=True, capture_output=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    last = max((home / "work/results").iterdir())
    step = max(
        float(x) for log in last.glob("logs/rank-*.log") for x in FOUND.findall(log.read_text())
    )
    return step - begin, parts(home, last.name, begin, step)


def parts(home: Path, run_id: str, begin: float, step: float) -> dict[str, float]:
    """Seconds of the parts of a start, from the debug log and the times of the run's files."""
    log = max((home / ".railhead/logs").glob("*-train-*.log")).read_text()
    lines = [(stamp(line), line) for line in log.splitlines() if re.match(r"\d{4}-", line)]
    first = lines[0][0]
    started = next(t for t, line in lines if f"run {run_id}: started" in line)
    connected = next(t for t, line in lines if f"run {run_id}: horovod" in line)
    before = next(
        (home / ".railhead/clusters").glob(f"*/hosts/*/home/.railhead/runs/{run_id}/before.json"),
        None,
    )
    mpirun = before.stat().st_mtime if before else started  # the supervisor's last file before it
    return {
        "Python and imports": first - begin,
        "connections, facts, plan": connected - first,
        "files and checks on the hosts": started - connected,
        "supervisor": mpirun - started,
        "mpirun and ranks": step - mpirun,
    }


def stamp(line: str) -> float:
    """The time of a line of the debug log, in seconds since 1970."""
    text = line.split()[0].rstrip("Z")
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()


def raw(home: Path) -> float:
    """Seconds to the first step with mpirun alone, as somebody types it on the chief."""
    chief = local_cluster.existing("start")[0].home
    run = max((chief / ".railhead/runs").iterdir())
    document = json.loads((run / "run.json").read_text())
    python = f'"$HOME/.railhead/envs/{document["runtime"]["digest"]}/bin/python"'
    run_tmp = f"TMPDIR=$HOME/.railhead/runs/{run.name}/tmp"  # a link to nothing: the run has ended
    agent = f"sh {run}/{SSH}"  # it uses the connections of the login check, which nobody types
    argv = [
        # Two orted that share a session folder: one of 60 starts hangs, Open MPI 4.1.4.
        word.replace(run_tmp, "TMPDIR=$HOME").replace(agent, f"ssh -F {run}/ssh_config")
        for word in json.loads((run / "mpirun.json").read_text())
    ]
    argv[-1] = f"cd $HOME/.railhead/runs/{run.name}/work && exec {python} step.py"
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    begin = time.time()
    environment = {"PATH": os.environ["PATH"], "HOME": str(chief), **root}
    done = subprocess.run(
        argv, cwd=run, env=environment, text=True, capture_output=True, timeout=BOUND
    )
    times = [float(x) for x in FOUND.findall(done.stdout)]
    if len(times) != 2:
        raise SystemExit(done.stdout + done.stderr)
    return max(times) - begin


def fabric_alone() -> float:
    """Seconds to connect to both hosts, with Fabric and nothing of ours."""
    cluster = local_state.load_cluster("start")
    argv = [f"{h.user},{h.address},{h.port},{cluster.key_file}" for h in cluster.hosts]
    begin = time.time()
    subprocess.run([sys.executable, "-c", FABRIC_ALONE, *argv], check=True, capture_output=True)
    return time.time() - begin


def of_command(folder: Path, *argv: str) -> float:
    """Seconds of a command in a folder."""
    begin = time.time()
    subprocess.run(argv, cwd=folder, check=True, capture_output=True)
    return time.time() - begin


@dataclass(frozen=True)
class Round:
    """Seconds of one round, and of the parts of `fab train`."""

    ours: float
    raw: float
    fabric: float
    status: float
    listed: float
    fabric_listed: float
    parts: dict[str, float]


def measure(home: Path, rounds: int) -> list[Round]:
    """All sides in turns, after one round that does not count."""
    measured = []
    for _ in range(rounds + 1):
        seconds, where = ours(home)
        work, other = home / "work", home / "other"
        others = (
            of_command(work, str(FAB), "status"),
            of_command(work, str(FAB), "--list"),
            of_command(other, *FABRIC, "--list"),
        )
        measured.append(Round(seconds, raw(home), fabric_alone(), *others, where))
    return measured[1:]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="start-") as name:
        ready(Path(name))
        try:
            load = os.getloadavg()[0]
            measured = measure(Path(name), rounds)
        finally:
            local_cluster.stop("start")
    print(f"load {load:.1f} at the start; medians of {rounds} rounds, in seconds")
    for name in measured[0].parts:
        print(f"  {median(x.parts[name] for x in measured):5.2f}  {name}")
    ours, alone = [x.ours for x in measured], [x.fabric for x in measured]
    over = [x.ours - x.raw for x in measured]
    beyond = "`fab train` to the first step, beyond mpirun"
    twice = "`fab train` to the first step of a script that joins MPI"
    return emit(
        Figure(beyond, "s", over, LIMIT),
        Figure(twice, "s", ours, TIMES_FABRIC, "Fabric runs `true`", alone),
        Figure("`fab status` of two hosts", "s", [x.status for x in measured], STATUS_LIMIT),
        Figure(
            "`fab --list`",
            "s",
            [x.listed for x in measured],
            TIMES_LIST,
            "Fabric, one task",
            [x.fabric_listed for x in measured],
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
