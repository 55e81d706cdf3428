"""Every benchmark that has a goal beside a peer, one after the other: `make bench`.

    python -m benchmarks [NAME ...] [--smallest] [--figures FILE]

Each is a process that leaves its figures (`figures.py`). They replace those of the same benchmark
in figures.json, from which `python -m pages` makes the table of docs/benchmarks.md. `--smallest`:
the least that gives every figure, and no table is made of it. Exit 1: a benchmark failed, or ended
without a figure; a goal that is missed stands in the table, as one that is kept does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.figures import HEAD, MISSED, VARIABLE, Figure, from_json

FILE = Path(__file__).with_name("figures.json")
BOUND = 3600  # seconds of one benchmark
STOPPED = 60  # seconds in which it stops its hosts after that


@dataclass(frozen=True)
class Benchmark:
    """The options of a benchmark, and those of its smallest form."""

    options: tuple[str, ...]
    smallest: tuple[str, ...]


BENCHMARKS = {
    "epoch": Benchmark((), ("--records", "1e5", "--rounds", "1")),
    "fanout": Benchmark(
        ("--hosts", "24", "--repeat", "5"), ("--hosts", "2", "--repeat", "1", "--connect", "2")
    ),
    "start": Benchmark((), ("--rounds", "1")),
}


def figures_of(name: str, options: tuple[str, ...]) -> list[Figure]:
    """Run a benchmark; [] if it fails or is not done in time."""
    with tempfile.TemporaryDirectory(prefix="figures-") as folder:
        path = Path(folder, "figures")
        command = [sys.executable, "-m", f"benchmarks.{name}", *options]
        process = subprocess.Popen(command, env={**os.environ, VARIABLE: str(path)})
        try:
            code = process.wait(BOUND)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait(STOPPED)
            return []
        if code not in (0, MISSED) or not path.exists():
            return []
        return [from_json(json.loads(line)) for line in path.read_text().splitlines()]


def entry(figures: list[Figure]) -> dict[str, Any]:
    """A benchmark in figures.json."""
    load = round(os.getloadavg()[0], 1)
    measured = {"date": date.today().isoformat(), "cores": os.cpu_count(), "load": load}
    return {**measured, "figures": [asdict(figure) for figure in figures]}


def table(document: dict[str, Any]) -> list[tuple[str, ...]]:
    """The rows of all benchmarks, each with its date and load; the first row is the head."""
    measured = [
        (*from_json(figure).cells(), f"{each['date']}, {each['load']}")
        for each in document.values()
        for figure in each["figures"]
    ]
    absent = [(f"`{name}`", *[""] * (len(HEAD) - 1), "not yet") for name in BENCHMARKS]
    absent = [row for row in absent if row[0].strip("`") not in document]
    return [(*HEAD, "measured, load"), *measured, *absent]


def main() -> int:
    """Run, keep and print."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--smallest", action="store_true")
    parser.add_argument("--figures", type=Path, help=f"instead of {FILE.name}")
    options = parser.parse_args()
    if unknown := sorted({*options.names} - {*BENCHMARKS}):
        parser.error(f"no benchmark {', '.join(unknown)}. Choices: {', '.join(BENCHMARKS)}")
    path = options.figures or FILE
    document: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    failed = []
    for name in options.names or BENCHMARKS:
        print(f"== benchmarks.{name}", flush=True)
        benchmark = BENCHMARKS[name]
        chosen = benchmark.smallest if options.smallest else benchmark.options
        if figures := figures_of(name, chosen):
            document[name] = entry(figures)
        else:
            failed.append(name)
    if options.figures or not options.smallest:
        path.write_text(json.dumps(document, indent=1) + "\n")
    for row in table(document):
        print("  ".join(row).replace("*", ""))
    print(f"without a figure: {', '.join(failed)}" if failed else "every benchmark has its figures")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
