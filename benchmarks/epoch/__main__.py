"""The plan of an epoch beside MosaicML Streaming's, and the manifest of many shards beside one JSON
document: CPU seconds and peak memory of whole processes.

    python -m benchmarks.epoch [--records 1e8] [--rounds 3]

Ours plans one of eight lanes, up to its first record; Streaming, in an environment of its own, the
partition before its shuffle. Then ten times the records, a thousand in a shard, without a peer; and
from that plan the CPU milliseconds of a resume in its middle.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.epoch import streaming_tool
from benchmarks.figures import Figure, emit

HERE = Path(__file__).parent
Measured = dict[str, float]


def ours(*arguments: object) -> Measured:
    """What `one.py` prints: CPU seconds, MB, and others."""
    return measured(sys.executable, "-m", "benchmarks.epoch.one", *arguments)


def measured(*command: object) -> Measured:
    """The JSON on the last line of a process."""
    done = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True)
    figures: Measured = json.loads(done.stdout.splitlines()[-1])
    return figures


def compared(
    label: str, peer: str, goals: tuple[float, float], rounds: list[tuple[Measured, Measured]]
) -> list[Figure]:
    """CPU seconds and memory of both sides."""
    return [
        Figure(label, unit, [a[key] for a, _ in rounds], goal, peer, [b[key] for _, b in rounds])
        for (key, unit), goal in zip(KEYS, goals, strict=True)
    ]


KEYS = (("cpu", "CPU s"), ("mb", "MB"))


def in_turns(
    rounds: int, first: Callable[[], Measured], second: Callable[[], Measured]
) -> list[tuple[Measured, Measured]]:
    """Another side begins in each round."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            last = second()
            pairs.append((first(), last))
        else:
            pairs.append((first(), second()))
    return pairs


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=float, default=1e8)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    records, rounds = int(options.records), options.rounds
    shards, most = records // 1000, records // 100
    python = streaming_tool.installed()
    peer = f"MosaicML Streaming {streaming_tool.VERSION}"

    def theirs() -> Measured:
        return measured(python, HERE / "streaming_partition.py", records)

    turns = in_turns(rounds, lambda: ours("plan", records, shards), theirs)
    figures = compared(f"a lane of an epoch over {records:.0e} records", peer, (0.1, 0.05), turns)
    label = "the same without the start of Python and its imports"
    alone = [[side["alone"] for side in sides] for sides in zip(*turns, strict=True)]
    figures.append(Figure(label, "CPU s", alone[0], 0.1, peer, alone[1]))
    large = [ours("plan", 10 * records, most) for _ in range(rounds)]
    label = f"the same of {10 * records:.0e} records in {most:.0e} shards"
    limits = zip(KEYS, (1, 100), strict=True)
    figures += [Figure(label, unit, [x[key] for x in large], goal) for (key, unit), goal in limits]
    resumed = [x["resume"] * 1e3 for x in large]
    figures.append(Figure("a resume in its middle, to the first record", "CPU ms", resumed, 10))
    with tempfile.TemporaryDirectory() as folder:
        ours("write", folder, most)
        turns = in_turns(rounds, lambda: ours("manifest", folder), lambda: ours("json", folder))
    label = f"the manifest of {most:.0e} shards"
    figures += compared(label, "one JSON document", (0.4, 0.1), turns)
    return emit(*figures)


if __name__ == "__main__":
    sys.exit(main())
