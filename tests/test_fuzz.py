"""Bad input: fifty cases of `python -m campaigns.fuzz`, the same in each run: the campaign draws
others."""

from __future__ import annotations

import subprocess
import sys

from places import ROOT


def test_fifty_cases_end_in_time_without_a_traceback() -> None:
    command = [sys.executable, "-m", "campaigns.fuzz", "--cases", "50", "--seed", "1"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
