"""`make campaign-NAME SEEDS=a:b`: a long random campaign, which can be interrupted.

Each seed is one command. Its outcome is a line in ~/.cache/railhead/campaigns/NAME.jsonl, with the
date and the digest of the tree; a seed that has passed on the same tree is not run again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Campaign:
    """The command of a seed, without `python`, and what a seed does, for docs/reliability.md."""

    command: str
    seed: str


CAMPAIGNS = {
    "launches": Campaign(
        "-m campaigns.launches --first {seed}000 --count 1000",
        "1,000 simulated launches in a model of a cloud",
    ),
    "engine-launches": Campaign(
        "-m campaigns.launches.on_the_engine --first {seed}",
        "one such launch with the real commands; even seeds: AWS, odd: Google Cloud",
    ),
    # A case's number decides what is killed during what: 12 seeds have all of it, on both clouds.
    "kills": Campaign(
        "-m campaigns.kills --seed {seed} --first {seed} --count 2",
        "two commands of a stack, killed at random moments; 12 seeds have all kinds",
    ),
    "survive": Campaign(
        "-m campaigns.survive --seed {seed}",
        "five runs of the built-in training, each with one to three faults",
    ),
    "survive-light": Campaign(
        "-m campaigns.survive --light --seed {seed}",
        "20 runs of a program that counts, with one to three faults, a full disk or no bucket",
    ),
    "freezes": Campaign(
        "-m pytest -q tests/bootstrap/host/lease/freezes.py"
        "::test_a_chief_that_wakes_up_harms_nothing[{seed}]",
        "a chief that is frozen for longer than its lease, and wakes up beside its successor",
    ),
    "hangs": Campaign("-m campaigns.hangs --seed {seed}", "each kind of hang, on two local hosts"),
    "hangs-light": Campaign(
        "-m campaigns.hangs --light --seed {seed}", "the kinds that need no TensorFlow"
    ),
    "healthy": Campaign(
        "-m campaigns.hangs --healthy --seed {seed}", "20 programs that are slow and healthy"
    ),
    "healthy-light": Campaign(
        "-m campaigns.hangs --light --healthy --seed {seed}", "the same without TensorFlow"
    ),
    "fuzz": Campaign(
        "-m campaigns.fuzz --cases 100 --seed {seed}", "100 commands with random bad input"
    ),
    "keras": Campaign(
        "-m campaigns.keras_trainings --seed {seed}",
        "trainings with Keras 3 in two ranks; 8 seeds have all replicas, runtimes and Pythons",
    ),
    "horovod": Campaign(
        "-m campaigns.horovod_interface --seed {seed}",
        "Horovod with Keras 3; 3 seeds have all versions of Keras and TensorFlow",
    ),
    "programs": Campaign(
        "-m campaigns.public_programs --seed {seed}",
        "public programs, unchanged; 6 seeds have each TensorFlow and each `--keras`",
    ),
    "torch": Campaign(
        "-m pytest -q tests/e2e/torch_launcher.py", "`--launcher torch`; the same for every seed"
    ),
}


def main() -> int:
    """Exit code 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m campaigns", description=__doc__)
    parser.add_argument("name", choices=sorted(CAMPAIGNS))
    parser.add_argument("seeds", type=seeds, metavar="a:b", help="from seed a, up to and without b")
    options = parser.parse_args()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    record = caches / "railhead/campaigns" / f"{options.name}.jsonl"
    record.parent.mkdir(parents=True, exist_ok=True)
    tree, failed = digest(), 0
    passed = {
        line["seed"] for line in recorded(record) if line["tree"] == tree and not line["code"]
    }
    for seed in options.seeds:
        command = [sys.executable, *shlex.split(CAMPAIGNS[options.name].command.format(seed=seed))]
        if seed in passed:
            print(f"seed {seed}: passed before", flush=True)
            continue
        started = time.monotonic()
        code = subprocess.run(command, cwd=ROOT).returncode
        failed += bool(code)
        outcome = {
            "seed": seed,
            "code": code,
            "tree": tree,
            "date": today(),
            "command": command[1:],
        }
        outcome["seconds"] = round(time.monotonic() - started)
        with record.open("a") as file:
            file.write(json.dumps(outcome) + "\n")
        print(
            f"seed {seed}: {'failed' if code else 'passed'} in {outcome['seconds']} s", flush=True
        )
    print(f"{today()}: {options.name}, {len(options.seeds)} seeds, {failed} failed; see {record}")
    return 1 if failed else 0


def seeds(text: str) -> range:
    """The seeds of `a:b`."""
    first, colon, end = text.partition(":")
    if not colon or not first.isdigit() or not end.isdigit() or int(first) >= int(end):
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of seeds such as 1:20")
    return range(int(first), int(end))


def digest() -> str:
    """A digest of the tracked files as they are now."""
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    digest = hashlib.sha256()
    for name in filter(None, files.stdout.split(b"\0")):
        file = ROOT / os.fsdecode(name)
        digest.update(name + b"\0" + (file.read_bytes() if file.is_file() else b""))
    return digest.hexdigest()[:16]


def recorded(record: Path) -> Iterator[dict[str, Any]]:
    """The outcomes so far; a line that was not written whole is left out."""
    for line in record.read_text().splitlines() if record.exists() else []:
        try:
            yield json.loads(line)
        except ValueError:
            continue


def today() -> str:
    """The date, in UTC."""
    return datetime.now(timezone.utc).date().isoformat()


if __name__ == "__main__":
    sys.exit(main())
