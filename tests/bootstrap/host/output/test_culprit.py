"""Which rank or host a failed run names: from mpirun's output, and with the real mpirun.

tests/cases/mpirun holds what OpenMPI 4.1.4 wrote to stderr at each kind of failure; five-*: 5.0.8
and 5.0.11.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from standins.runs.supervised_run import HEAD, MESSAGES, Run, needs_mpirun, says, with_script
from standins.runs.supervisor_here import SupervisorHere
from standins.waiting import wait_until

from railhead.documents.codec import encode
from railhead.documents.runs.result import Result

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
    "five-exit": {"rank": 1, "host": "b", "exit": 3},
    "five-signal": {"rank": 1, "host": "b", "signal": 9},
    "five-abort": {"rank": 1, "host": "b", "exit": 77},
    "five-improper": {"rank": 1, "host": "b", "exit": 0},
    "five-lost": {"rank": None, "host": "b"},
    "five-no-program": {"rank": None, "host": None},
    "five-unreachable": {"rank": None, "host": None},
}


def test_every_recorded_failure_is_a_case() -> None:
    assert {path.stem for path in MESSAGES.iterdir()} == set(BLAMED)


def test_a_lost_host_is_counted_among_those_that_take_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an elastic run: mpirun knows nothing of the absent one, which comes before it."""
    hosts = [{"name": "a"}, {"name": "absent", "slots": 0}, {"name": "b"}]
    run = SupervisorHere(tmp_path / "r1", monkeypatch, hosts=hosts, elastic=1)
    run.mpirun_prints((MESSAGES / "lost.txt").read_text())
    assert blamed(run.result(77)) == BLAMED["lost"]


def blamed(result: Result) -> dict[str, Any]:
    """The culprit as result.json has it, without its lines."""
    culprit = encode(result)["culprit"]
    return {key: culprit[key] for key in culprit if key != "lines"}


@pytest.mark.parametrize("name", BLAMED)
def test_the_first_failure_is_blamed(supervised: SupervisorHere, name: str) -> None:
    text = (MESSAGES / f"{name}.txt").read_text()
    supervised.rank_prints(1, "my last words")
    supervised.mpirun_prints(text)
    result = supervised.result(77)
    assert (result.state, result.exit_code) == ("failed", 77)
    assert blamed(result) == BLAMED[name]
    assert supervised.log("mpirun") == text
    first = tuple(line for line in text.splitlines() if line)[:12]
    assert result.culprit
    assert result.culprit.lines == (("my last words",) if BLAMED[name]["rank"] else first)


def test_the_result_of_a_run_names_who_failed_first(home: Path) -> None:
    run = Run(home, f"{says(1, 'my last words')}; cat {MESSAGES / 'segfault.txt'} >&2; exit 77")
    result = run.result()
    assert (result["state"], result["exit_code"]) == ("failed", 77)
    assert result["culprit"] == {**BLAMED["segfault"], "lines": ["my last words"]}
    assert run.log("mpirun") == (MESSAGES / "segfault.txt").read_text()


def test_of_two_failures_the_first_counts(supervised: SupervisorHere) -> None:
    for name in ("segfault", "lost"):
        supervised.mpirun_prints((MESSAGES / f"{name}.txt").read_text())
    assert blamed(supervised.result(1)) == BLAMED["segfault"]


ENDED = '@railhead {"kind": "ended", "exit": %d}'
CULPRITS = {
    "where mpirun names nobody": ("unnamed", {"rank": 0, "host": "a", "exit": 4}),
    "before mpirun's opinion of exits": ("exit", {"rank": 0, "host": "a", "exit": 4}),
    "after one that was killed": ("signal", BLAMED["signal"]),
    "after a host that was lost": ("lost", BLAMED["lost"]),
}


@pytest.mark.parametrize("name, culprit", CULPRITS.values(), ids=CULPRITS)
def test_a_rank_that_reports_its_end_counts(
    supervised: SupervisorHere, name: str, culprit: dict[str, Any]
) -> None:
    supervised.rank_prints(0, ENDED % 4)
    supervised.rank_prints(1, ENDED % 5)
    supervised.mpirun_prints((MESSAGES / f"{name}.txt").read_text())
    assert blamed(supervised.result(4)) == culprit


@pytest.mark.parametrize(
    "error, reports, culprit",
    [
        ("ConnectionResetError: the other rank", (0,), {**BLAMED["exit"]}),
        ("ValueError: of its own", (0,), {"rank": 0, "host": "a", "exit": 1}),
        ("ConnectionResetError: the other rank", (0, 1), {"rank": 0, "host": "a", "exit": 1}),
    ],
    ids=["a lost connection", "an error of its own", "both report"],
)
def test_a_rank_that_ends_without_a_report_is_blamed_for_lost_connections(
    supervised: SupervisorHere, error: str, reports: tuple[int, ...], culprit: dict[str, Any]
) -> None:
    """As by os._exit(3); mpirun names rank 1."""
    supervised.rank_prints(0, error)
    for rank in reports:
        supervised.rank_prints(rank, ENDED % 1)
    supervised.mpirun_prints((MESSAGES / "exit.txt").read_text())
    assert blamed(supervised.result(3)) == culprit


SHUT_DOWN = "HorovodInternalError: Horovod has been shut down. This was caused by an exception"


def test_a_rank_that_ends_early_is_blamed_for_the_error_of_the_others(
    supervised: SupervisorHere,
) -> None:
    """Another error of them is their own."""
    supervised.rank_prints(1, "did 3 steps\n" + ENDED % 0)
    supervised.rank_prints(0, SHUT_DOWN + "\n" + ENDED % 1)
    result = supervised.supervisor.explained(supervised.result(1))
    assert blamed(result) == {"rank": 1, "host": "b", "exit": 0}
    assert result.cause and (result.cause.class_, result.cause.rank) == ("program", 1)
    assert "ended before the others" in result.cause.evidence


def test_a_rank_that_ends_well_is_not_blamed_for_another_error(supervised: SupervisorHere) -> None:
    supervised.rank_prints(1, ENDED % 0)
    supervised.rank_prints(0, "KeyError: 7\n" + ENDED % 1)
    assert blamed(supervised.result(1)) == {"rank": 0, "host": "a", "exit": 1}


REAL: dict[str, tuple[str, dict[str, Any]]] = {
    "at once": ("sys.exit(3)", {"exit": 3}),
    "an error": ("if rank: 1 / 0\ntime.sleep(20)", {"rank": 1, "host": "b", "exit": 1}),
    "os._exit": ("time.sleep(1)\nif rank: os._exit(6)\ntime.sleep(20)", {"rank": 1, "exit": 6}),
    "killed": ("time.sleep(1)\nif rank: os.kill(os.getpid(), 9)\ntime.sleep(20)", {"signal": 9}),
}


@needs_mpirun
@pytest.mark.parametrize("script, expected", REAL.values(), ids=REAL)
def test_real_ranks_fail(home: Path, script: str, expected: dict[str, Any]) -> None:
    last = "print('last words of', rank)\n"
    result = with_script(Run(home, ""), HEAD + last + script).result()
    culprit = result["culprit"]
    assert result["state"] == "failed"
    assert {key: culprit.get(key) for key in expected} == expected
    assert culprit["lines"][0] == f"last words of {culprit['rank']}"


@needs_mpirun
@pytest.mark.slow
def test_every_line_of_a_loud_rank_is_kept_in_little_memory(home: Path) -> None:
    """The lines are 15 MB; the supervisor grows by less than half of that."""
    script = HEAD + "start = time.monotonic()\nfor n in range(7500):\n    print(n, 'x' * 1000)\n"
    script += "    n % 20 or time.sleep(max(0, start + n / 2500 - time.monotonic()))"
    run = with_script(Run(home, ""), script)
    process = run.start()
    log = run.folder / "logs/rank-0.log"
    wait_until(lambda: log.exists() and log.stat().st_size > 0)
    first = peak = resident(process.pid)
    while process.poll() is None:
        peak = max(peak, resident(process.pid))
        time.sleep(0.1)
    for rank in (0, 1):
        numbers = [int(line.split()[0]) for line in run.log(f"rank-{rank}").splitlines()]
        assert numbers == list(range(7500))
    assert peak - first < 7_000


def resident(pid: int) -> int:
    """The memory of a process in kB; 0 once it has ended."""
    status = Path(f"/proc/{pid}/status").read_text()
    sizes = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(sizes[0]) if sizes else 0
