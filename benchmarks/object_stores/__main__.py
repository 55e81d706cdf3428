"""Clients of object stores: how fast they read from a real S3 server, and what they weigh.

    python -m benchmarks.object_stores [--rounds 5] [--objects 8]

Each client gets a separate environment from the package index; one that cannot be installed is
skipped. A round reads all objects of 64 MB once with each client, four at a time. Of the clients of
Google Cloud Storage only size and import time are measured. There is no limit: the figures are the
reason for the choice in docs/data.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from standins.stores import object_stores, servers

READER = Path(__file__).with_name("reader.py")
SIZE = 64 << 20
CLIENTS = {  # name: packages, module
    "obstore": (("obstore>=0.11.1,<0.12",), "obstore"),
    "boto3": (("boto3",), "boto3"),
    "s3fs": (("s3fs",), "s3fs"),
    "s5cmd": (("s5cmd",), ""),
    "gcsfs": (("gcsfs",), "gcsfs"),
    "google-cloud-storage": (("google-cloud-storage",), "google.cloud.storage"),
}
ON_S3 = ("obstore", "boto3", "s3fs", "s5cmd")


@dataclass
class Client:
    """An installed client and its figures, one per round."""

    name: str
    python: Path
    megabytes: float
    rates: list[float] = field(default_factory=list)  # MB/s
    cpu: list[float] = field(default_factory=list)  # seconds
    first: list[float] = field(default_factory=list)  # seconds until the first bytes
    imports: list[float] = field(default_factory=list)  # seconds


def install(name: str, folder: Path) -> Client | None:
    """The client in a separate environment; None where it cannot be installed."""
    packages, _ = CLIENTS[name]
    uv, place = str(Path(sys.executable).with_name("uv")), folder / name
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(place)], check=True)
    empty = size_of(place)
    python = place / "bin/python"
    command = [uv, "pip", "install", "-q", "--python", str(python), *packages]
    if subprocess.run(command).returncode:
        print(f"{name} cannot be installed here: skipped")
        return None
    return Client(name, python, (size_of(place) - empty) / 1e6)


def size_of(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(client: Client, environ: dict[str, str], objects: int) -> None:
    """One round of one client."""
    _, module = CLIENTS[client.name]
    environment = {**os.environ, **environ}
    if module:
        code = (
            f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
        )
        done = run(client, ["-c", code], environment)
        client.imports.append(float(done))
    if client.name in ON_S3:
        figures = json.loads(run(client, [str(READER), client.name, str(objects)], environment))
        client.rates.append(objects * SIZE / figures["seconds"] / 1e6)
        client.cpu.append(figures["cpu"])
        client.first.append(figures["first"])


def run(client: Client, arguments: list[str], environment: dict[str, str]) -> str:
    """What a program prints in the client's environment."""
    command = [str(client.python), *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()[-1]


def shown(client: Client) -> str:
    """One row of the table."""
    cells = [f"{client.megabytes:.0f} MB", number(client.imports, "s", 2)]
    cells += [number(client.rates, "MB/s", 0), number(client.cpu, "s", 1)]
    cells += [number([1000 * each for each in client.first], "ms", 0)]
    return f"| {client.name} | {' | '.join(cells)} |"


def number(values: list[float], unit: str, digits: int) -> str:
    """The median."""
    return f"{median(values):.{digits}f} {unit}" if values else "-"


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--objects", type=int, default=8)
    options = parser.parse_args()
    servers.main()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    with tempfile.TemporaryDirectory() as name, object_stores.s3(caches, Path(name, "s3")) as s3:
        s3.make_bucket("data")
        for index in range(options.objects):
            s3.put("data", f"object-{index}", os.urandom(1 << 20) * (SIZE >> 20))
        installed = [install(each, Path(name)) for each in CLIENTS]
        clients = [client for client in installed if client]
        for _ in range(options.rounds):
            for client in clients:
                measure(client, s3.environ, options.objects)
    print(f"load {os.getloadavg()[0]:.1f}; {options.objects} objects of 64 MB, medians")
    print("| client | installed | import | read | CPU | first bytes |\n|---|---|---|---|---|---|")
    for client in clients:
        print(shown(client))
    return 0


if __name__ == "__main__":
    sys.exit(main())
