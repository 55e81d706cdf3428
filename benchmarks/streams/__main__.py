"""How data in a bucket reaches a training: as a stream, from downloaded files, and from memory.

    python -m benchmarks.streams --python RUNTIME/bin/python [--rounds 5] [--gigabytes 2]

RUNTIME is an environment that `fab bootstrap` made. A real S3 server runs on this machine; a relay
gives it the speed of a network. Exit 1 where a limit is not kept:

- samples/s: shards in files >= 0.95 of memory, a stream >= 0.95 of files (medians of ratios)
- at 60 MB/s the first record of a stream arrives within a tenth of the time that mode file takes;
  s5cmd and s3fs, in environments of their own, are measured beside it
- streaming takes at most 300 MB of memory, tmpfs included
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from standins import object_stores
from standins.relay import Relay

from benchmarks.object_stores.__main__ import install

REPO = Path(__file__).resolve().parents[2]
RATE = 60e6  # bytes per second
PEERS = ("s5cmd cp", "s3fs get", "s3fs open")
LEAST, FIRST, MEMORY = 0.95, 0.1, 300.0
Seconds = list[tuple[float, float]]  # per sample in each round: on the clock, and of CPU time


def probe(python: str, environ: dict[str, str], *arguments: str) -> Any:
    """What a measurement in the runtime prints last, as JSON."""
    command = [python, str(Path(__file__).with_name("probe.py")), *arguments]
    more = {"PYTHONPATH": str(REPO), "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        command,
        env={**os.environ, **more, **environ},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def speeds(python: str, environ: dict[str, str], rounds: int) -> bool:
    """Samples per second of a training, in turns in one process."""
    found: dict[str, Seconds] = probe(python, environ, "speed", "s3://data/images", str(rounds))
    for name, each in found.items():
        rates = [1 / wall for wall, _ in each]
        cpu = median(cpu for _, cpu in each)
        print(
            f"{name:<8} {median(rates):8.0f} samples/s  ({min(rates):.0f}-{max(rates):.0f})", end=""
        )
        print(f"  CPU {1e6 * cpu:.0f} us per sample")
    ratios = [ratio(found, "file", "memory"), ratio(found, "stream", "file")]
    return all(each >= LEAST for each in ratios)


def ratio(found: dict[str, Seconds], one: str, other: str) -> float:
    """The median of the rounds' ratios of samples/s: both of a round ran under about the same load.

    CPU time is this process's alone, without the server's, and bears other work better.
    """
    pairs = list(zip(found[other], found[one], strict=True))
    each = [a[0] / b[0] for a, b in pairs]
    middle = median(each)
    print(f"{one} / {other} {middle:.2f}  ({min(each):.2f}-{max(each):.2f}), limit {LEAST}", end="")
    print(f"; samples per CPU second {median(a[1] / b[1] for a, b in pairs):.2f}")
    return middle


def first_records(python: str, environ: dict[str, str], rounds: int, folder: Path) -> bool:
    """Seconds until the first record through a link of 60 MB/s, by mode and by other clients."""
    readers: dict[str, Callable[[dict[str, str]], float]] = {
        mode: partial(first_of_mode, python, mode, folder) for mode in ("stream", "file")
    }
    installed = {name: install(name, folder) for name in ("s5cmd", "s3fs")}
    for name in PEERS:
        if client := installed[name.split()[0]]:
            readers[name] = partial(first_of_peer, str(client.python), name)
    found: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(rounds):
        for name, reader in readers.items():
            with Relay(environ["AWS_ENDPOINT_URL"], bytes_per_s=RATE) as relay:
                found[name].append(reader({**environ, "AWS_ENDPOINT_URL": relay.endpoint}))
    ratios: dict[str, float] = {}
    for name, each in found.items():
        ratios[name] = median(a / b for a, b in zip(found["stream"], each, strict=True))
        print(
            f"first record, {name:<9} {median(each):6.2f} s  ({min(each):.2f}-{max(each):.2f})",
            end="",
        )
        print(f"; stream / {name} {ratios[name]:.3f}")
    print(f"limit of stream / file {FIRST}")
    return ratios["file"] <= FIRST


def first_of_mode(python: str, mode: str, folder: Path, environ: dict[str, str]) -> float:
    """Ours; mode file downloads into a new cache."""
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        more = {**environ, "RAILHEAD_DATA_CACHE": cache}
        return float(probe(python, more, "first", "s3://data/large", mode))


def first_of_peer(python: str, name: str, environ: dict[str, str]) -> float:
    """Another client's, in its own environment."""
    command = [python, str(Path(__file__).with_name("peers.py")), name]
    done = subprocess.run(
        command, env={**os.environ, **environ}, stdout=subprocess.PIPE, text=True, check=True
    )
    return float(done.stdout.splitlines()[-1])


def memory(python: str, environ: dict[str, str]) -> bool:
    """Memory while everything is streamed once."""
    found = probe(python, environ, "memory", "s3://data/large")
    grown: float = (found["most"] - found["before"]) / 1e6
    rate = found["bytes"] / found["seconds"] / 1e6
    print(f"streamed {found['bytes'] / 1e9:.1f} GB at {rate:.0f} MB/s: {grown:.0f} MB of memory")
    print(f"limit {MEMORY:.0f} MB")
    return grown <= MEMORY


def main() -> int:
    """Measure and print; exit 1 where a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="of a runtime, with TensorFlow and obstore")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--only", choices=("speed", "first", "memory"), help="one of the three")
    options = parser.parse_args()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    with tempfile.TemporaryDirectory() as name, object_stores.s3(caches, Path(name)) as s3:
        s3.make_bucket("data")
        python = options.python
        probe(python, s3.environ, "make", "s3://data", str(options.gigabytes))
        print(f"load {os.getloadavg()[0]:.1f}", flush=True)
        parts: dict[str, Callable[[], bool]] = {
            "speed": lambda: speeds(python, s3.environ, options.rounds),
            "first": lambda: first_records(python, s3.environ, options.rounds, Path(name)),
            "memory": lambda: memory(python, s3.environ),
        }
        kept = [part() for key, part in parts.items() if options.only in (None, key)]
    return int(not all(kept))


if __name__ == "__main__":
    sys.exit(main())
