"""`python -m tests.mutants [ROOM ...]`: whether the tests notice each fault.

It works in a copy of the tracked files. Exit code 0: each fault was caught; 1: one was not, or its
tests could not run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import Mutant, mutants, rooms

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 900  # for the tests of one mutant
FAILED = 1  # pytest's exit code where tests ran and one failed
OUTCOMES = {0: "LIVED", FAILED: "caught", 124: "caught"}  # 124: the tests did not end in time


def main() -> int:
    """Run those that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(rooms())}")
    parser.add_argument("--only", type=int, metavar="N", help="one mutant of the room, from 1")
    parser.add_argument("--verbose", action="store_true", help="show the tests' last lines")
    options = parser.parse_args()
    totals: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="railhead-mutants-") as folder:
        copy = copied(Path(folder))
        for room in options.rooms or rooms():
            for number, mutant in enumerate(mutants(room), 1):
                if options.only in (None, number):
                    started = time.monotonic()
                    outcome, lines = tried(mutant, copy)
                    totals[outcome] = totals.get(outcome, 0) + 1
                    seconds = time.monotonic() - started
                    print(
                        f"{outcome:<7} {seconds:5.0f} s  {room} {number}: {mutant.what}", flush=True
                    )
                    if options.verbose or outcome == "broken":
                        print("\n".join(lines[-15:]), flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(totals.items())))
    return 0 if set(totals) <= {"caught"} else 1


def copied(folder: Path) -> Path:
    """A copy of the tracked files, with the environment of this clone."""
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    copy = ["rsync", "-a", "--from0", "--files-from=-", f"{ROOT}/", str(folder)]
    if subprocess.run(["sh", "-c", "command -v rsync"], capture_output=True).returncode:
        copy = ["sh", "-c", f"tar -cf - --null -T - | tar -xf - -C '{folder}'"]
    subprocess.run(copy, cwd=ROOT, input=files, check=True)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    # Some tests ask git which files are tracked.
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    return folder


def tried(mutant: Mutant, copy: Path) -> tuple[str, list[str]]:
    """Whether its tests noticed it, and their output."""
    file = copy / mutant.file
    text = file.read_text()
    try:
        file.write_text(mutant.apply(text))
    except ValueError as error:
        return "broken", [str(error)]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    # A traceback per failing worker is of no use here.
    argv = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line"]
    argv += ["--basetemp", str(copy.with_name(f"{copy.name}.tmp")), *mutant.caught_by]
    try:
        process = subprocess.run(
            argv, cwd=copy, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
        code, output = process.returncode, process.stdout + process.stderr
    except subprocess.TimeoutExpired as error:
        code, output = 124, str(error)
    finally:
        file.write_text(text)
    return OUTCOMES.get(code, "broken"), output.splitlines()


if __name__ == "__main__":
    sys.exit(main())
