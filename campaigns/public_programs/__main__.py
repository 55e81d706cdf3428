"""Public programs, unchanged, on two hosts: python -m campaigns.public_programs --seed 0.

A seed is a TensorFlow and a --keras; six seeds have all. The programs are fetched from GitHub, or
are in RAILHEAD_PROGRAMS (sources.py). Their data is random and their loops are short (short.py).
The outcomes are written to the caches; --table prints those of all seeds for docs/keras.md.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from e2e import kept_environments
from e2e.local_hosts import Operator, cluster

from .outcomes import (
    FAILED,
    NOT_FETCHED,
    SUCCEEDED,
    Outcome,
    limit_of,
    outcome_of,
    read,
    table,
    write,
)
from .programs import PROGRAMS, Program
from .short import SAMPLES
from .sources import NotFetched, folder_of

ROOT = Path(__file__).resolve().parents[2]
SEEDS = [*itertools.product(("tf2.18", "tf2.21"), ("auto", "3", "2"))]
SECONDS = 900  # of a run
QUIET = ("--env", "TF_NUM_INTRAOP_THREADS=1", "--env", "TF_NUM_INTEROP_THREADS=2")


def main() -> int:
    """Exit code 1 if fewer programs ran than should, or none could be fetched."""
    parser = argparse.ArgumentParser(
        prog="python -m campaigns.public_programs", description=__doc__
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="programs whose name has this text")
    parser.add_argument("--table", action="store_true", help="the outcomes of all seeds")
    options = parser.parse_args()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    records = caches / "railhead/campaigns/programs"
    if options.table:
        names = {program.name for program in PROGRAMS}  # an earlier list had others, too
        kept = {seed: read(records, seed) for seed in SEEDS}
        print(table({seed: [o for o in all_ if o.name in names] for seed, all_ in kept.items()}))
        return 0
    runtime, keras = SEEDS[options.seed % len(SEEDS)]
    chosen = [p for p in PROGRAMS if any(text in p.name for text in options.only or [""])]
    outcomes = []
    for outcome in run_all(chosen, runtime, keras, caches):
        print(outcome.line, flush=True)
        outcomes.append(outcome)
        write(records, (runtime, keras), outcome)
    tried = [outcome for outcome in outcomes if outcome.state != NOT_FETCHED]
    ran = sum(outcome.state == SUCCEEDED for outcome in tried)
    print(f"{runtime}, --keras {keras}: {ran} of {len(tried)} programs ran")
    return 0 if tried and ran >= limit_of(keras) * len(tried) else 1


def run_all(
    programs: Sequence[Program], runtime: str, keras: str, caches: Path
) -> Iterator[Outcome]:
    """The outcome of each program, one after the other, on two new local hosts."""
    with tempfile.TemporaryDirectory() as place:
        home, folder = Path(place, "home"), Path(place, "folder")
        home.mkdir()
        folder.mkdir()
        with cluster(home, "programs", caches):
            prepare(home, runtime, caches)
            for program in programs:
                yield run(Operator(home, folder, caches), program, runtime, keras)
                shutil.rmtree(folder)
                folder.mkdir()


def prepare(home: Path, runtime: str, caches: Path) -> None:
    """Install the runtime on the hosts, and what makes programs short in its environment."""
    with kept_environments.alone(caches) as kept:
        kept_environments.give_to_hosts(kept, home, runtime)
    operator = Operator(home, home, caches)
    operator.fab("bootstrap", "--runtime", runtime, seconds=3600).ended(0)
    with kept_environments.alone(caches) as kept:
        kept_environments.keep(kept, home)
    for envs in kept_environments.of_hosts(home):
        for packages in envs.glob("*/lib/python3.*/site-packages"):
            distribution = packages / "railhead_short"
            distribution.mkdir(exist_ok=True)
            shutil.copy(Path(__file__).with_name("short.py"), distribution / "__init__.py")
            shutil.copy(ROOT / "railhead/keras_patches/patch.py", distribution / "patch.py")
            (packages / "railhead_short.pth").write_text("import railhead_short\n")


def run(operator: Operator, program: Program, runtime: str, keras: str) -> Outcome:
    """Train with `fab train`, as a user does."""
    try:
        source = folder_of(program, operator.caches)
    except NotFetched as why:
        return Outcome(program.name, NOT_FETCHED, why=str(why))
    code = operator.folder / "code"
    shutil.copytree(source, code, ignore=shutil.ignore_patterns(".git"))
    words = ("--script", f"code/{Path(program.path).name}", "--args", program.words)
    row = ("--runtime", runtime, "--strategy", program.strategy, "--keras", keras)
    samples = f"{SAMPLES}={' '.join(map(str, program.samples))}"
    for place in program.outside:  # of an earlier run
        shutil.rmtree(place, ignore_errors=True)
    process = operator.start("train", *words, *row, *QUIET, "--env", samples)
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        operator.start("cancel").wait()
        process.communicate()
        return Outcome(program.name, FAILED, why=f"it still ran after {SECONDS} seconds")
    return outcome_of(program.name, output, operator.folder)


if __name__ == "__main__":
    sys.exit(main())
