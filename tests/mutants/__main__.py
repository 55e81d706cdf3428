"""`python -m tests.mutants [ROOM ...]`: whether the tests notice each fault.

It works in a copy of the tracked files. A fault is caught if its tests fail with it, and pass
without it. Exit code 0: each fault was caught; 1: one was not, or its tests could not run.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import Mutant, mutants, rooms

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 900  # for the tests of one mutant
SECONDS_OF_FILES = itertools.count(1_000_000_000)
PASSED, FAILED = 0, 1  # pytest's exit codes
TIMEOUT = 124
# A test that is skipped notices nothing.
REQUIRED = {f"RAILHEAD_{part}": "required" for part in ("FULL_HOSTS", "SERVERS", "ENGINE")}


def main() -> int:
    """Run those that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(rooms())}")
    parser.add_argument("--only", type=int, metavar="N", help="one mutant of the room, from 1")
    parser.add_argument("--verbose", action="store_true", help="show the tests' last lines")
    options = parser.parse_args()
    totals: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="railhead-mutants-") as folder:
        copy = copied(Path(folder) / "tree")
        for room in options.rooms or rooms():
            for number, mutant in enumerate(mutants(room), 1):
                if options.only in (None, number):
                    started = time.monotonic()
                    outcome, lines = outcome_of(mutant, copy)
                    totals[outcome] = totals.get(outcome, 0) + 1
                    seconds = f"{time.monotonic() - started:5.0f} s"
                    print(f"{outcome:<7} {seconds}  {room} {number}: {mutant.what}")
                    whole = options.verbose or outcome == "broken"
                    shown = lines[-15:] if whole else failed_tests(lines)
                    print("\n".join(f"    {line}" for line in shown), flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(totals.items())))
    return 0 if set(totals) <= {"caught"} else 1


def copied(folder: Path) -> Path:
    """A copy of the tracked files, with the environment of this clone."""
    folder.mkdir()
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    archive = subprocess.run(
        ["tar", "-c", "--null", "-T", "-"], cwd=ROOT, input=files, capture_output=True, check=True
    ).stdout
    subprocess.run(["tar", "-x"], cwd=folder, input=archive, check=True)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    # Some tests ask git which files are tracked.
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    return folder


def outcome_of(mutant: Mutant, copy: Path) -> tuple[str, list[str]]:
    """Whether its tests noticed it, and their output."""
    file = copy / mutant.file
    text = file.read_text()
    try:
        write(file, mutant.apply(text))
    except ValueError as error:
        return "broken", [str(error)]
    try:
        code, lines = run_tests(mutant.caught_by, copy)
    finally:
        write(file, text)
    if code == PASSED:
        return "LIVED", lines
    if code not in (FAILED, TIMEOUT):
        return "broken", lines
    sound, lines_without = tests_pass(mutant.caught_by, copy)
    return ("caught", lines) if sound else ("broken", ["without the fault:", *lines_without])


def write(file: Path, text: str) -> None:
    """Write a file with another time: Python compiles it again, also within one second."""
    file.write_text(text)
    second = next(SECONDS_OF_FILES)
    os.utime(file, (second, second))


def failed_tests(lines: list[str]) -> list[str]:
    """The lines of pytest's output that name the tests that failed."""
    return [line for line in lines if line.startswith(("FAILED", "ERROR"))]


@functools.cache
def tests_pass(arguments: tuple[str, ...], copy: Path) -> tuple[bool, list[str]]:
    """Whether the tests pass on the code as it is, and their output."""
    code, lines = run_tests(arguments, copy)
    return code == PASSED, lines


def run_tests(arguments: tuple[str, ...], copy: Path) -> tuple[int, list[str]]:
    """The exit code of pytest, and its output."""
    environment = {**os.environ, **REQUIRED, "PYTHONPATH": str(copy)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    # A traceback per failing worker is of no use here.
    argv = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line"]
    argv += ["--basetemp", str(copy.with_name("tmp")), *arguments]
    try:
        process = subprocess.run(
            argv, cwd=copy, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return TIMEOUT, [f"the tests did not end within {SECONDS} s"]
    return process.returncode, (process.stdout + process.stderr).splitlines()


if __name__ == "__main__":
    sys.exit(main())
