"""The job that is timed, as JSON that both tools read, and what it leaves on a host when right."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path

from bootstrap.clouds.local.cluster import existing
from bootstrap.inventory.hosts import Inventory

FILES, FILE_BYTES = 200, 10_000
COMMANDS = ("uname -r", "grep -c root /etc/passwd", "test -e ~/marker && echo yes || echo no")


@dataclass(frozen=True)
class Target:
    """One host as a tool sees it, and where its home lies on this machine."""

    name: str
    address: str
    port: int
    user: str
    host_key: str
    home: str
    config: str


@dataclass(frozen=True)
class Job:
    """What goes to every host: its own config file, one hostfile, one tree."""

    cluster: str
    key_file: str
    known_hosts: str
    tree: str
    hostfile: str
    targets: tuple[Target, ...]


def plan_job(inventory: Inventory, known_hosts: Path, tree: Path) -> Job:
    """The job for a cluster of local hosts; the tree is written here."""
    write_tree(tree)
    homes = {host.name: str(host.home) for host in existing(inventory.name)}
    workers = [f"{host.address}:2223" for host in inventory.hosts]
    targets = [
        Target(
            host.name,
            host.address,
            host.port or 22,
            host.user or "",
            host.host_key or "",
            homes[host.name],
            json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": i}}),
        )
        for i, host in enumerate(inventory.hosts)
    ]
    hostfile = "".join(f"{host.name} slots=8\n" for host in inventory.hosts)
    key = inventory.key_file or ""
    return Job(inventory.name, key, str(known_hosts), str(tree), hostfile, tuple(targets))


def save(job: Job, path: Path) -> None:
    """Write the job where the tools read it."""
    path.write_text(json.dumps(asdict(job)))


def load(path: Path) -> Job:
    """The job that `save` wrote."""
    read = json.loads(path.read_text())
    return Job(**{**read, "targets": tuple(Target(**target) for target in read["targets"])})


def write_tree(tree: Path) -> None:
    """200 files of 10 kB that compress about as source code does, in 20 folders."""
    words = [f"word{i:03}" for i in range(400)]
    chance = random.Random(7)
    for i in range(FILES):
        path = tree / f"package{i % 5}" / f"part{i % 4}" / f"module{i}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(" ".join(chance.choices(words, k=FILE_BYTES // 8)) + "\n")


def change_one(tree: Path, revision: int) -> None:
    """Change one file of the tree, its size unchanged."""
    with (tree / "package3" / "part0" / "module108.py").open("r+") as file:
        file.write(f"rev {revision:08}")


def contents(folder: Path) -> dict[str, str]:
    """The sha256 of every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def wrong(job: Job, tool: str) -> list[str]:
    """The hosts on which a tool did not leave exactly what the job asks for; empty when right."""
    tree = contents(Path(job.tree))
    assert len(tree) == FILES
    return [target.name for target in job.targets if not _right(job, target, tool, tree)]


def _right(job: Job, target: Target, tool: str, tree: dict[str, str]) -> bool:
    place = Path(target.home) / tool
    try:
        texts = [(place / name).read_text() for name in ("config", "hostfile")]
        return texts == [target.config, job.hostfile] and contents(place / "tree") == tree
    except OSError:
        return False
