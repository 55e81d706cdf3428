"""`fab exec` with one command on 1, 16 and 64 hosts, beside plain ssh and pyinfra, in turns.

    python -m benchmarks.fanout.exec [--hosts 1,16,64] [--repeat 3] [--before TREE]

Real sshd processes on this machine, named by an ssh_config. Each tool is a process of its own; its
start counts. `ssh` is one process for each host, all at once. The CPU seconds are those of the
controller: of the tool and of all that it starts, also in the background, without the sshd. TREE is
another checkout, whose `fab` is measured too.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.fanout import job, pyinfra_tool
from benchmarks.fanout.__main__ import Bench
from bootstrap.clouds.local import cluster
from bootstrap.inventory import local_state

ROOT = Path(__file__).parents[2]
COMMAND = "uname -r"
PR_SET_CHILD_SUBREAPER = 36


def measured(argv: list[str], environment: dict[str, str], hosts: int) -> tuple[float, float]:
    """Seconds and CPU seconds of a tool; RuntimeError when it failed, or a host is missing."""
    _adopt(True)
    before, begin = _cpu(), time.monotonic()
    done = subprocess.run(argv, env=environment, text=True, capture_output=True)
    seconds = time.monotonic() - begin
    while True:  # what went on in the background is ours now
        try:
            os.wait()
        except ChildProcessError:
            break
    _adopt(False)
    if done.returncode or (done.stdout + done.stderr).count(os.uname().release) < hosts:
        raise RuntimeError(f"{shlex.join(argv)} failed:\n{done.stdout}{done.stderr}")
    return seconds, _cpu() - before


def _adopt(on: bool) -> None:
    """Whether processes in the background become ours, whose CPU seconds count; the sshd do not."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tools(bench: Bench, before: Path | None) -> dict[str, tuple[list[str], dict[str, str]]]:
    """The command and the environment of each tool."""
    names = [target.name for target in bench.job.targets]
    fab = [str(Path(sys.executable).with_name("fab")), "-r"]
    words = ["exec", "--hosts", ",".join(names), "--cmd", COMMAND]
    config = Path.home() / ".ssh/config"
    ssh = shlex.join(["ssh", "-F", str(config), "-o", "BatchMode=yes"])
    each = " & ".join(f"{ssh} {name} {COMMAND}" for name in names)
    here = {**os.environ, "PYTHONPATH": str(ROOT)}
    inventory, pyinfra = bench.argv("pyinfra", "")[2], bench.environment("")
    commands = {
        "fab exec": ([*fab, str(ROOT), *words], here),
        "fab exec --ssh": ([*fab, str(ROOT), *words, "--ssh"], here),
        "ssh": (["sh", "-c", f"{each} & wait"], here),
        "pyinfra": ([str(bench.pyinfra), "-y", inventory, "exec", "--", *COMMAND.split()], pyinfra),
    }
    if before:
        there = {**os.environ, "PYTHONPATH": str(before)}
        commands["fab exec before"] = ([*fab, str(before), *words], there)
    return commands


def compare(hosts: int, repeat: int, before: Path | None, folder: Path) -> None:
    """Print a line for each tool on so many hosts."""
    inventory = cluster.start("exec", hosts)
    try:
        known_hosts = local_state.cluster_folder(inventory.name) / "known_hosts"
        planned = job.plan_job(inventory, known_hosts, folder / "tree")
        job.save(planned, folder / "job.json")
        _configure(planned)
        bench = Bench(planned, folder / "job.json", pyinfra_tool.installed())
        commands = tools(bench, before)
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(repeat):
            for name, (argv, environment) in commands.items():
                taken[name].append(measured(argv, environment, hosts))
    finally:
        cluster.destroy("exec")
    for name, pairs in taken.items():
        seconds, cpu = (sorted(pair[column] for pair in pairs) for column in (0, 1))
        print(
            f"{hosts:3} hosts  {name:16}  {median(seconds):6.2f} s ({seconds[0]:.2f} to "
            f"{seconds[-1]:.2f})  CPU {median(cpu):6.2f} s ({cpu[0]:.2f} to {cpu[-1]:.2f})",
            flush=True,
        )


def _configure(planned: job.Job) -> None:
    """The ssh_config of the user, with a block for each host."""
    blocks = [
        f"Host {target.name}\n  HostName {target.address}\n  Port {target.port}\n"
        for target in planned.targets
    ]
    config = Path.home() / ".ssh/config"
    known_hosts = config.with_name("known_hosts")
    config.parent.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(planned.known_hosts, known_hosts)
    shared = f"Host *\n  IdentityFile {planned.key_file}\n  UserKnownHostsFile {known_hosts}\n"
    config.write_text("".join([*blocks, shared]))


def main() -> None:
    """See the top."""
    parser = argparse.ArgumentParser(prog="benchmarks.fanout.exec")
    parser.add_argument("--hosts", default="1,16,64")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--before", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="railhead-exec-") as name:
        os.environ["HOME"] = name
        os.environ.pop("SSH_AUTH_SOCK", None)
        for hosts in map(int, options.hosts.split(",")):
            print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
            compare(hosts, options.repeat, options.before, Path(name))


if __name__ == "__main__":
    main()
