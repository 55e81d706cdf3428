"""Fan-out against pyinfra, in the same run on the same hosts: seconds, the CPU seconds and the
memory of this computer's process, and ratios.

    python -m benchmarks.fanout [--hosts 16] [--repeat 5] [--connect 64]

Real sshd processes on this machine, in a temporary HOME. Three phases: `commands` (connect and
run three), `first` (also two files and a tree of 200 files on an empty host) and `again` (one of
the 200 changed). The two tools take turns; each is a separate process, its start counts. After
each run the files on every host are compared with what they should be. Exit 3 if a goal is missed,
or a connection was lost; 2 without rsync, which pyinfra is given.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from benchmarks.fanout import job, pyinfra_tool
from benchmarks.figures import Figure, emit
from bootstrap.clouds.local import cluster
from bootstrap.inventory import local_state
from bootstrap.ssh import connect

HERE = Path(__file__).parent
GOALS = {  # of pyinfra's seconds
    "commands": ("three commands", 0.45),
    "first": ("the first sync", 0.35),
    "again": ("a sync after 1 of 200 files changed", 0.25),
}
PHASES = tuple(GOALS)
CPU_GOAL, MEMORY_GOAL = 0.3, 0.5  # of pyinfra's
# For minutes ext4 does not use the inode of a deleted file again, and passes over each when it
# looks for a free one: where 10,000 files were just deleted the first sync takes 5 s, not 1.5.
MEMORY = Path("/dev/shm")
TOOLS = ("ours", "pyinfra")


@dataclass(frozen=True)
class Spent:
    """What a process took: seconds, seconds of CPU, MB at its peak."""

    seconds: float
    cpu: float
    megabytes: float


@dataclass(frozen=True)
class Bench:
    """A job written to `path`, on started hosts."""

    job: job.Job
    path: Path
    pyinfra: Path

    def run(self, tool: str, phase: str) -> Spent:
        """What a tool took; RuntimeError when it failed or left something wrong."""
        extent = "commands" if phase == "commands" else "whole"
        begin = time.monotonic()
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                self.argv(tool, extent),
                env=self.environment(extent),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.monotonic() - begin
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            if process.returncode:
                raise RuntimeError(f"{tool} failed in {phase}:\n{output.read()}")
        if extent == "whole" and (bad := job.wrong(self.job, tool)):
            raise RuntimeError(f"{tool} left something wrong in {phase} on {', '.join(bad)}")
        return Spent(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)

    def argv(self, tool: str, extent: str) -> list[str]:
        """The command of one tool."""
        if tool == "ours":
            return [sys.executable, "-m", "benchmarks.fanout.ours_started", str(self.path), extent]
        scripts = [str(HERE / f"pyinfra_{name}.py") for name in ("inventory", "deploy")]
        return [str(self.pyinfra), "-y", *scripts]

    def environment(self, extent: str) -> dict[str, str]:
        """What tells pyinfra's scripts the job; ours reads none of it."""
        variables = {"FANOUT_JOB": str(self.path), "FANOUT_PHASE": extent}
        return {**os.environ, **variables, "FANOUT_COMMANDS": "\n".join(job.COMMANDS)}

    def empty(self) -> None:
        """Take from the hosts all that either tool has put there."""
        for target in self.job.targets:
            for name in (*TOOLS, ".railhead"):
                shutil.rmtree(Path(target.home) / name, ignore_errors=True)


def rounds(bench: Bench, repeat: int) -> dict[tuple[str, str], list[Spent]]:
    """What each tool took in each phase; the tool that begins changes from round to round."""
    taken: dict[tuple[str, str], list[Spent]] = {(t, p): [] for p in PHASES for t in TOOLS}
    for number in range(repeat):
        bench.empty()
        for phase in PHASES:
            if phase == "again":
                job.change_one(Path(bench.job.tree), number)
            for tool in TOOLS if number % 2 else TOOLS[::-1]:
                taken[tool, phase].append(bench.run(tool, phase))
        print(f"round {number + 1} of {repeat}, load {os.getloadavg()[0]:.1f}", flush=True)
    return taken


def figures(taken: dict[tuple[str, str], list[Spent]], hosts: int) -> list[Figure]:
    """Each phase, beside pyinfra."""
    rows = []
    for phase, (label, goal) in GOALS.items():
        ours, theirs = taken["ours", phase], taken["pyinfra", phase]
        what = f"{label}, {hosts} hosts"
        for unit, most, of in (
            ("s", goal, attrgetter("seconds")),
            ("CPU s", CPU_GOAL, attrgetter("cpu")),
            ("MB", MEMORY_GOAL, attrgetter("megabytes")),
        ):
            rows.append(Figure(what, unit, [*map(of, ours)], most, "pyinfra", [*map(of, theirs)]))
    return rows


def lost(count: int) -> int:
    """Connect to `count` hosts at once; how many were lost."""
    inventory = cluster.start("connect", count)
    try:
        begin = time.monotonic()
        with connect.open_sessions(inventory) as sessions:
            seconds = time.monotonic() - begin
    finally:
        cluster.stop("connect")
    print(f"connect to {count} at once: {len(sessions.failed)} lost, {seconds:.2f} s")
    return len(sessions.failed)


def compare(hosts: int, repeat: int, folder: Path, pyinfra: Path) -> int:
    """Time both tools, each on separate hosts; MISSED if a goal is."""
    inventory = cluster.start("fanout", hosts)
    try:
        known_hosts = local_state.cluster_folder(inventory.name) / "known_hosts"
        planned = job.plan_job(inventory, known_hosts, folder / "tree")
        job.save(planned, folder / "job.json")
        taken = rounds(Bench(planned, folder / "job.json", pyinfra), repeat)
    finally:
        cluster.stop("fanout")
    return emit(*figures(taken, hosts))


def main() -> int:
    """Both measurements; see the top."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the hosts are stopped then, too
    parser = argparse.ArgumentParser(prog="benchmarks.fanout")
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--connect", type=int, default=64, help="0 leaves this part out")
    options = parser.parse_args()
    if not shutil.which("rsync"):
        print("pyinfra is at its fastest with rsync; next: sudo apt-get install -y rsync")
        return 2
    pyinfra = pyinfra_tool.installed()
    print(f"{options.hosts} hosts, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    folder = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="railhead-fanout-", dir=folder) as name:
        os.environ["HOME"] = name
        os.environ.pop("SSH_AUTH_SOCK", None)
        missed = compare(options.hosts, options.repeat, Path(name), pyinfra)
        gone = lost(options.connect) if options.connect else 0
    print(f"{gone} connections lost")
    return 1 if gone else missed


if __name__ == "__main__":
    sys.exit(main())
