"""See campaigns/hangs/__init__.py."""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from e2e.local_hosts import Operator

from .healthy import light_runs, runs_on_hosts
from .kinds import KINDS, Kind
from .light import result_of
from .runs import RANKS, hosts, judged, train

SECONDS = 30.0  # after the limit, in which a stall must be found
Hang = tuple[str, int]  # a name in KINDS, and the rank that hangs


def main() -> int:
    """Exit code 1 if more than one kind in thirty is not found, or a healthy run is ended."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.hangs", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--healthy", action="store_true", help="programs that only take long")
    parser.add_argument("--light", action="store_true", help="without TensorFlow")
    parser.add_argument("--count", type=int, default=20, help="how many healthy runs")
    parser.add_argument("--at-once", type=int, default=6, help="how many light runs")
    parser.add_argument("--only", action="append", choices=sorted(KINDS), help="these kinds")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # after the hosts are stopped
    chance = random.Random(options.seed)
    hangs = [(name, rank_of(KINDS[name], chance)) for name in options.only or KINDS]
    if options.light and options.healthy:
        return healthy(options.count, light_runs(chance, options.count, options.at_once))
    if options.light:
        return report(light_hangs([(n, r) for n, r in hangs if KINDS[n].light], options.at_once))
    with tempfile.TemporaryDirectory() as folder, hosts(Path(folder)) as operator:
        if options.healthy:
            return healthy(options.count, runs_on_hosts(operator, chance, options.count))
        return report([on_hosts(operator, hang) for hang in hangs])


def healthy(count: int, alarms: int) -> int:
    """Print the outcome of healthy runs; the exit code."""
    print(f"{count} healthy runs, {alarms} false alarms", flush=True)
    return 1 if alarms else 0


def report(right: Sequence[bool]) -> int:
    """Print the outcome of hangs; the exit code."""
    wrong = right.count(False)
    print(f"{len(right) - wrong} of {len(right)} hangs: rank and line right", flush=True)
    return 0 if wrong <= len(right) / 30 else 1


def rank_of(kind: Kind, chance: random.Random) -> int:
    """The rank that hangs: with parameter servers the one of the role (chief, ps, worker)."""
    if kind.strategy == "parameter-server":
        return {"chief": 0, "ps": 1, "worker": 2}[kind.role]
    return chance.randrange(RANKS)


def light_hangs(hangs: Sequence[Hang], at_once: int) -> list[bool]:
    """Whether each was found."""

    def run_one(hang: Hang) -> bool:
        script = KINDS[hang[0]].light
        return shown(hang, script, lambda: (*result_of(script, hang[1]), ""))

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(run_one, hangs))


def on_hosts(operator: Operator, hang: Hang) -> bool:
    """Whether it was found in a run on two hosts."""
    kind = KINDS[hang[0]]

    def run() -> tuple[Any, str, str]:
        words = ("--strategy", kind.strategy) if kind.strategy else ()
        out = train(operator, kind.script, *words, hangs=hang[1], stops=kind.stops)
        records = (operator.last / "metrics.jsonl").read_text()
        return json.loads((operator.last / "result.json").read_text()), records, out

    return shown(hang, kind.script, run)


def shown(hang: Hang, script: str, run: Callable[[], tuple[Any, str, str]]) -> bool:
    """Run it, print the outcome, and return whether it was found in time."""
    begun, (name, rank) = time.monotonic(), hang
    result, records, out = run()
    outcome = judged(result, records, KINDS[name], script, rank, out)
    good = outcome.right and outcome.late <= SECONDS
    print(
        f"{'right' if good else 'WRONG'}  {name} (rank {rank}): {outcome.text}"
        f" [{outcome.late:+.0f} s; {time.monotonic() - begun:.0f} s in all]",
        flush=True,
    )
    return good


if __name__ == "__main__":
    sys.exit(main())
