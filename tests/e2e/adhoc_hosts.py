"""A person who names full hosts by `--hosts`, and the processes there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from e2e.local_hosts import Operator, wait_until
from e2e.scripts import JOIN
from hosts.base import recipe_digest
from hosts.full_host import FullHost
from hosts.network import Network
from hosts.prepared import digest_of

from bootstrap.host.base.programs import SUPERVISOR

# Ticks for the seconds in its argument, or until its host has a file. Rank 0 writes a file only if
# it reaches its end.
END_OF_TICKS = "/root/end-of-ticks"
TICKS = f"""{JOIN}
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end and not os.path.exists("{END_OF_TICKS}"):
    print("tick", flush=True)
    time.sleep(0.2)
if rank == 0:
    pathlib.Path("finished.txt").write_text(os.environ["RAILHEAD_HOST"])
"""


def ticking(operator: Operator, hosts: str, seconds: float, *options: str) -> tuple[str, ...]:
    """The arguments that start a run of TICKS for so many seconds, or until END_OF_TICKS."""
    operator.write("ticks.py", TICKS)
    return ("train", "--hosts", hosts, "--script", "ticks.py", "--args", str(seconds), *options)


def somebody(folder: Path, caches: Path) -> Operator:
    """A person with a new home, who has not named any host yet."""
    (folder / "project").mkdir()
    return Operator(folder / "laptop", folder / "project", caches)


@contextlib.contextmanager
def ready(network: Network, disk: Path, *names: str, disk_mb: int = 0) -> Iterator[list[FullHost]]:
    """Started hosts with what a ready host has on its disk; they lack only the keys."""
    hosts = [FullHost(network, name, layers=[disk], disk_mb=disk_mb) for name in names]
    try:
        for host in hosts:
            host.start(wait=False)
        for host in hosts:
            host.wait()
        yield hosts
    finally:
        for host in hosts:
            host.remove()


def introduce(operator: Operator, *hosts: FullHost, user: str = "root", pinned: bool = True) -> str:
    """Give the person's ssh an alias and a pin for each host; the aliases, as --hosts has them.

    `lap-h1` is a name that the hosts do not know.
    """
    for host in hosts:
        write_ssh(operator, host.ssh_config(f"lap-{host.name}", user=user))
        if pinned:
            trust(operator, host.known_hosts_line())
    return ",".join(f"lap-{host.name}" for host in hosts)


def write_ssh(operator: Operator, block: str) -> None:
    """Append to the person's ~/.ssh/config."""
    _append(operator.home / ".ssh" / "config", block)


def trust(operator: Operator, line: str) -> None:
    """Append to the person's ~/.ssh/known_hosts."""
    _append(operator.home / ".ssh" / "known_hosts", line)


def _append(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)


# What `fab bootstrap` runs and installs. A change there makes another disk.
MADE_BY = (
    "bootstrap/facts",
    "bootstrap/plan",
    "bootstrap/ssh",
    "bootstrap/provision",
    "bootstrap/host",
    "bootstrap/workflows/bootstrap.py",
    "railhead/documents",
    "locks",
)


def digest_of_ready_disk() -> str:
    """A digest of all that decides what is on a disk that is ready."""
    return digest_of(MADE_BY, recipe_digest())


def make_ready(network: Network, operator: Operator, path: Path) -> None:
    """Make one full host ready and move its disk to `path`, for others to start from.

    The wheel comes from the person's cache, or is built there with what --system installs.
    """
    packages = operator.caches / "railhead" / "uv"
    packages.mkdir(parents=True, exist_ok=True)
    seed = FullHost(network, "seed", binds={packages: "/root/.railhead/cache/uv"})
    seed.start()
    hosts = introduce(operator, seed)
    operator.fab("bootstrap", "--hosts", hosts, "--system", seconds=1800).ended(0, "ready")
    operator.fab("teardown", "--hosts", hosts).ended(0, "keys removed")
    seed.keep_disk(path)


def without_mpirun(host: FullHost) -> FullHost:
    """Take Open MPI's programs off the host's disk, as if nobody had ever installed them."""
    removal = host.exec("dpkg", "--remove", "--force-depends", "openmpi-bin")
    assert removal.returncode == 0, removal.stderr
    return host


def marked_on(host: FullHost) -> list[str]:
    """Command lines of a host's processes that belong to a run."""
    return [" ".join(p.argv) for p in host.processes() if is_marked(p.pid)]


def is_marked(pid: int) -> bool:
    """Whether a process carries a run's mark in its environment."""
    try:
        return b"\0RAILHEAD_RUN=" in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def ranks_on(host: FullHost) -> list[int]:
    """The machine's pids of a host's ranks."""
    return [p.pid for p in host.processes() if "rank.rank" in p.argv]


def supervisor_on(host: FullHost) -> int:
    """The machine's pid of the supervisor that runs there."""
    (pid,) = [p.pid for p in host.processes() if SUPERVISOR in p.argv]
    return pid


def our_keys(host: FullHost) -> list[str]:
    """The lines of its root's authorized_keys that are a cluster's."""
    lines = host.read("/root/.ssh/authorized_keys").splitlines()
    return [line for line in lines if "railhead" in line]


def written(host: FullHost) -> dict[str, tuple[int, int]]:
    """Size and time of every file written to its disk, without logs."""
    files = {}
    for folder, _, names in os.walk(host.disk.upper):
        for name in names:
            path = Path(folder, name)
            inside = path.relative_to(host.disk.upper).as_posix()
            if not inside.startswith("var/log/"):
                status = path.lstat()
                files[inside] = (status.st_size, status.st_mtime_ns)
    return files


def run_id(out: str) -> str:
    """The id in `run ID started`."""
    return next(line.split()[1] for line in out.splitlines() if line.endswith("breaks"))


def wait_for_ticks(*hosts: FullHost, more: int = 1) -> None:
    """Wait until the rank of each host (the chief first) has ticked so many more times."""
    runs = hosts[0].disk.root / "root/.railhead/runs"

    def ticks() -> list[int]:
        logs = [runs.glob(f"*/logs/rank-{rank}.log") for rank in range(len(hosts))]
        return [sum(log.read_text().count("tick") for log in of_rank) for of_rank in logs]

    before = ticks()

    def ticked() -> bool:
        return all(now >= then + more for now, then in zip(ticks(), before, strict=True))

    wait_until(ticked, 120, "every rank ticks")
