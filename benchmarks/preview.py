"""How long `pulumi preview` takes: an empty program's, and a whole cluster's, on the same engine.

    python -m benchmarks.preview [--rounds 5]

The cluster is one of 16 machines at AWS, previewed without a network:
the stand-ins of the tests answer. Each round runs all programs one after the other; the figures
are medians, and each cluster's is held against 2 x the empty program's plus 3 s.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from engine import stack as engine
from engine.aws import OnAws
from standins.aws.cloud import Cloud
from standins.aws.provider import serve

EMPTY = "import pulumi\npulumi.export('nothing', 1)\n"


@contextmanager
def stacks(folder: Path) -> Iterator[dict[str, engine.Stack]]:
    """The programs to preview, by name."""
    cli = engine.required()
    (folder / "aws").mkdir()
    with ExitStack() as held:
        cloud = held.enter_context(Cloud())
        provider, port = held.enter_context(serve(cloud))
        aws = OnAws(cli, folder / "aws", cloud, provider, port).stack.config(count=16)
        empty = engine.Stack(cli, folder / "empty", program=EMPTY)
        local = engine.Stack(cli, folder / "local").config(cloud="local", count=16)
        yield {"empty": empty, "local, 16 hosts": local, "aws, 16 machines": aws}


def measure(made: dict[str, engine.Stack], rounds: int) -> dict[str, list[float]]:
    """Seconds of each preview, a round after the other; the first round is for warming up."""
    seconds: dict[str, list[float]] = {name: [] for name in made}
    for number in range(rounds + 1):
        for name, stack in made.items():
            done = stack.preview().ended(0)
            if number:
                seconds[name].append(done.seconds)
            else:
                print(f"{name}: {sum(done.summary.values())} resources", flush=True)
    return seconds


def main() -> int:
    """Measure and print; exit 1 where a cluster's preview is over the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    with tempfile.TemporaryDirectory() as name, stacks(Path(name)) as made:
        seconds = measure(made, rounds)
    limit = 2 * median(seconds["empty"]) + 3
    print(f"load {os.getloadavg()[0]:.1f}; limit 2 x empty + 3 s = {limit:.1f} s")
    for program, each in seconds.items():
        low, middle, high = min(each), median(each), max(each)
        print(f"{program:<18} {middle:5.1f} s  ({low:.1f}-{high:.1f})  {middle / limit:4.2f} of it")
    return int(any(median(each) > limit for each in seconds.values()))


if __name__ == "__main__":
    sys.exit(main())
