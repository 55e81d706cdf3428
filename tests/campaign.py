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
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = {
    "fuzz": "-m tests.fuzz --cases 100 --seed {seed}",
    # A thousand scenarios of the model; one with the real commands.
    "launches": "-m tests.launches --first {seed}000 --count 1000",
    "engine-launches": "-m tests.engine.launches --first {seed}",
    "torch": "-m pytest -q tests/e2e/torch_launcher.py",  # the same for every seed
    # A case's number decides what is killed during what: 12 seeds have all of it, on both clouds.
    "kills": "-m tests.engine.kills --seed {seed} --first {seed} --count 2",
    # One or two replicas, two runtimes, two Pythons: 8 seeds have all.
    "keras": "-m tests.keras_campaign --seed {seed}",
    # Public programs, two TensorFlows and each --keras: 6 seeds have all.
    "programs": "-m tests.public_programs --seed {seed}",
    # Kills in a training: five runs of the built-in training on two local hosts.
    "survive": "-m tests.survive_campaign --seed {seed}",
    # Each kind of hang once; twenty healthy programs that take long.
    "hangs": "-m tests.hangs --seed {seed}",
    "hangs-light": "-m tests.hangs --light --seed {seed}",
    "healthy": "-m tests.hangs --healthy --seed {seed}",
    "healthy-light": "-m tests.hangs --light --healthy --seed {seed}",
    # Two versions of Keras on one TensorFlow, and another TensorFlow: 3 seeds have all.
    "horovod": "-m tests.horovod_campaign --seed {seed}",
}


def main() -> int:
    """Exit code 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("name", choices=sorted(COMMANDS))
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
        command = [sys.executable, *shlex.split(COMMANDS[options.name].format(seed=seed))]
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
