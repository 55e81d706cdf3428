"""Run many cases, print those that are wrong: python -m campaigns.fuzz --cases 1000 --seed 7."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import random
import shlex
import sys
import tempfile
from collections import Counter
from pathlib import Path

import bootstrap.workflows

from . import cases, sandbox


def main() -> int:
    """Exit 1 if a case was wrong."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--only", type=int, help="the number of one case; prints its output")
    options = parser.parse_args()
    print(f"python -m campaigns.fuzz --cases {options.cases} --seed {options.seed}", flush=True)
    for module in pkgutil.iter_modules(bootstrap.workflows.__path__):
        importlib.import_module(f"bootstrap.workflows.{module.name}")  # once for all forks
    numbers = range(options.cases) if options.only is None else [options.only]
    with tempfile.TemporaryDirectory() as folder:
        wrong, kinds = 0, Counter[str]()
        box, template = sandbox.Sandbox(Path(folder) / "box"), Path(folder) / "template"
        cases.make_template(template, box)
        for number in numbers:
            case = cases.case(options.seed, number, box, template)
            kinds[case.kind] += 1
            case.lay_out(box)
            faults = sandbox.run(box, case.argv, case.prepare, case.codes, case.also_writes)
            wrong += bool(faults)
            if faults or options.only is not None:
                _print(options.seed, number, case, faults, box)
    print(f"{wrong} of {len(numbers)} cases are wrong; {dict(kinds)}")
    return 1 if wrong else 0


def _print(
    seed: int, number: int, case: cases.Case, faults: list[str], box: sandbox.Sandbox
) -> None:
    print(f"\ncase {number}: {case.kind}: fab {shlex.join(case.argv)[:300]!a}; {case.damage}")
    print(f"  {'; '.join(faults)[:1000]!a}")
    print(f"  again: python -m campaigns.fuzz --seed {seed} --only {number}")
    for line in box.output.read_text(errors="replace").splitlines()[-25:]:
        print(f"    {ascii(line)[1:-1][:300]}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
