"""Which rank or host a failed run names: from mpirun's output, and with the real mpirun.

tests/cases/mpirun holds what OpenMPI 4.1.4 wrote to stderr at each kind of failure.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from standins.supervised_run import CASES, HEAD, Run, needs_mpirun, says, with_script

BLAMED: dict[str, dict[str, Any]] = {
    "signal": {"rank": 1, "host": "b", "signal": 9},
    "segfault": {"rank": 1, "host": "b", "signal": 11},
    "exit": {"rank": 1, "host": "b", "exit": 3},
    "exit-after-init": {"rank": 1, "host": "b", "exit": 5},
    "abort": {"rank": 1, "host": "b", "exit": 7},
    "improper": {"rank": 1, "host": "b", "exit": 0},
    "lost": {"rank": None, "host": "b"},
    "unnamed": {"rank": None, "host": None},
    "unreachable": {"rank": None, "host": None},
    "no-program": {"rank": None, "host": None},
}


def test_every_recorded_failure_is_a_case() -> None:
    assert {path.stem for path in CASES.iterdir()} == set(BLAMED)


@pytest.mark.parametrize("name", BLAMED)
def test_who_failed_first(home: Path, name: str) -> None:
    run = Run(home, f"{says(1, 'my last words')}; cat {CASES / name}.txt >&2; exit 77")
    result = run.result()
    lines = result["culprit"].pop("lines")
    assert (result["state"], result["exit_code"]) == ("failed", 77)
    assert result["culprit"] == BLAMED[name]
    text = (CASES / f"{name}.txt").read_text()
    assert run.log("mpirun") == text
    first = [line for line in text.splitlines() if line][:12]
    assert lines == (["my last words"] if BLAMED[name]["rank"] else first)


def test_of_two_failures_the_first_counts(home: Path) -> None:
    both = f"cat {CASES / 'segfault.txt'} {CASES / 'lost.txt'} >&2; exit 1"
    assert Run(home, both).result()["culprit"]["signal"] == 11


ENDED = says(0, '@railhead {"kind": "ended", "exit": 4}')
CULPRITS = {
    "where mpirun names nobody": ("unnamed", {"rank": 0, "host": "a", "exit": 4}),
    "before mpirun's opinion of exits": ("exit", {"rank": 0, "host": "a", "exit": 4}),
    "after one that was killed": ("signal", BLAMED["signal"]),
    "after a host that was lost": ("lost", BLAMED["lost"]),
}


@pytest.mark.parametrize("name, blamed", CULPRITS.values(), ids=CULPRITS)
def test_a_rank_that_reports_its_end_counts(home: Path, name: str, blamed: dict[str, Any]) -> None:
    later = says(1, '@railhead {"kind": "ended", "exit": 5}')
    result = Run(home, f"{ENDED}; {later}; cat {CASES / name}.txt >&2; exit 4").result()
    assert {k: v for k, v in result["culprit"].items() if k != "lines"} == blamed


REAL: dict[str, tuple[str, dict[str, Any]]] = {
    "at once": ("sys.exit(3)", {"exit": 3}),
    "an error": ("if rank: 1 / 0\ntime.sleep(20)", {"rank": 1, "host": "b", "exit": 1}),
    "os._exit": ("time.sleep(1)\nif rank: os._exit(6)\ntime.sleep(20)", {"rank": 1, "exit": 6}),
    "killed": ("time.sleep(1)\nif rank: os.kill(os.getpid(), 9)\ntime.sleep(20)", {"signal": 9}),
}


@needs_mpirun
@pytest.mark.parametrize("script, blamed", REAL.values(), ids=REAL)
def test_real_ranks_fail(home: Path, script: str, blamed: dict[str, Any]) -> None:
    last = "print('last words of', rank)\n"
    result = with_script(Run(home, ""), HEAD + last + script).result()
    culprit = result["culprit"]
    assert result["state"] == "failed"
    assert {k: culprit.get(k) for k in blamed} == blamed
    assert culprit["lines"][0] == f"last words of {culprit['rank']}"


@needs_mpirun
@pytest.mark.slow
def test_every_line_of_a_fast_talker_is_kept_in_little_memory(home: Path) -> None:
    script = HEAD + "start = time.monotonic()\nfor n in range(50000):\n"
    script += "    print(n, 'x' * 80)\n    time.sleep(max(0, start + n / 10000 - time.monotonic()))"
    run = with_script(Run(home, ""), script)
    process = run.start()
    peak = 0
    while process.poll() is None:
        text = Path(f"/proc/{process.pid}/status").read_text()
        peak = max(peak, *(int(x.split()[1]) for x in text.splitlines() if x[:6] == "VmRSS:"), 0)
        time.sleep(0.1)
    for rank in (0, 1):
        numbers = [int(line.split()[0]) for line in run.log(f"rank-{rank}").splitlines()]
        assert numbers == list(range(50000))
    assert peak < 40_000  # kB
