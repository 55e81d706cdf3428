"""How data in a bucket reaches a training: as a stream, from downloaded files, and from memory.

    python -m benchmarks.streams --python RUNTIME/bin/python [--rounds 5] [--gigabytes 2]

RUNTIME is an environment that `fab bootstrap` made. A real S3 server and an emulator of Google's
storage run on this machine; a relay gives them the speed of a network. Exit 1 where a limit is not
kept:

- samples/s: shards in files >= 0.95 of memory, a stream >= 0.95 of files (medians of ratios)
- at 60 MB/s the first record of a stream arrives within a tenth of the time that mode file takes;
  s5cmd, s3fs and gcsfs, in separate environments, and TensorFlow's own reader of gs:// are
  measured beside it
- streaming takes at most 300 MB of memory, tmpfs included
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from standins.stores import object_stores, servers
from standins.stores.object_stores import S3

from .first import first_records, link_to_google, link_to_s3
from .runtime import probe

CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
LEAST, MEMORY = 0.95, 300.0
Seconds = list[tuple[float, float]]  # per sample in each round: on the clock, and of CPU time


def speeds(python: str, environ: dict[str, str], rounds: int) -> bool:
    """Samples per second of a training, in turns in one process."""
    seconds: dict[str, Seconds] = probe(python, environ, "speed", "s3://data/images", str(rounds))
    for name, each in seconds.items():
        rates = [1 / wall for wall, _ in each]
        cpu = median(cpu for _, cpu in each)
        print(
            f"{name:<8} {median(rates):8.0f} samples/s  ({min(rates):.0f}-{max(rates):.0f})", end=""
        )
        print(f"  CPU {1e6 * cpu:.0f} us per sample")
    ratios = [ratio(seconds, "file", "memory"), ratio(seconds, "stream", "file")]
    return all(each >= LEAST for each in ratios)


def ratio(seconds: dict[str, Seconds], first: str, second: str) -> float:
    """The median of the rounds' ratios of samples/s: both of a round ran under about the same load.

    CPU time is this process's alone, without the server's, and bears other work better.
    """
    pairs = list(zip(seconds[second], seconds[first], strict=True))
    each = [a[0] / b[0] for a, b in pairs]
    middle = median(each)
    print(
        f"{first} / {second} {middle:.2f}  ({min(each):.2f}-{max(each):.2f}), limit {LEAST}", end=""
    )
    print(f"; samples per CPU second {median(a[1] / b[1] for a, b in pairs):.2f}")
    return middle


def first(python: str, s3: S3, options: argparse.Namespace, folder: Path) -> bool:
    """The first record, from S3 and from Google's storage."""
    link = partial(link_to_s3, s3.environ)
    kept = first_records(python, "s3", link, options.rounds, folder)
    with object_stores.gcs(CACHES, folder / "gcs") as gcs:
        gcs.make_bucket("data")
        probe(python, gcs.environ, "make", "gs://data", str(options.gigabytes))
        link = partial(link_to_google, gcs.endpoint, folder)
        return first_records(python, "gs", link, options.rounds, folder) and kept


def memory(python: str, environ: dict[str, str]) -> bool:
    """Memory while everything is streamed once."""
    figures = probe(python, environ, "memory", "s3://data/large")
    grown: float = (figures["most"] - figures["before"]) / 1e6
    rate = figures["bytes"] / figures["seconds"] / 1e6
    print(f"streamed {figures['bytes'] / 1e9:.1f} GB at {rate:.0f} MB/s: {grown:.0f} MB of memory")
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
    servers.main()
    with tempfile.TemporaryDirectory() as name, object_stores.s3(CACHES, Path(name)) as s3:
        s3.make_bucket("data")
        python = options.python
        probe(python, s3.environ, "make", "s3://data", str(options.gigabytes))
        print(f"load {os.getloadavg()[0]:.1f}", flush=True)
        parts: dict[str, Callable[[], bool]] = {
            "speed": lambda: speeds(python, s3.environ, options.rounds),
            "first": lambda: first(python, s3, options, Path(name)),
            "memory": lambda: memory(python, s3.environ),
        }
        kept = [measure() for key, measure in parts.items() if options.only in (None, key)]
    return int(not all(kept))


if __name__ == "__main__":
    sys.exit(main())
