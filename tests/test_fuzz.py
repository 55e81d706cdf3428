"""Random bad input: the cases of `python -m tests.fuzz`, with another seed at each run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_a_hundred_cases_end_in_time_without_a_traceback() -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--cases", "100"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
