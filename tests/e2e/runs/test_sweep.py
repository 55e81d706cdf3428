"""Trials of a sweep at the same time, on slices of two local SSH hosts of one host each."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from e2e.local_hosts import Operator, marked, wait_until

# Ends when `go` is there; the accuracy is the value of its argument.
SCRIPT = """
import os, pathlib, sys, time
rate = float(sys.argv[sys.argv.index("--rate") + 1])
pathlib.Path(os.environ["GO"] + "." + sys.argv[-1]).write_text(str(os.getpid()))
while not pathlib.Path(os.environ["GO"]).exists():
    time.sleep(0.1)
print("accuracy", rate)
"""


def sweep_of(operator: Operator, rates: str) -> tuple[tuple[str, ...], Path]:
    """The command, two trials at once, and the file that lets the trials end."""
    operator.write("train.py", SCRIPT)
    go = operator.folder.with_suffix(".go") / "go"  # beside the program, which does not change
    go.parent.mkdir()
    sets = ("--set", f"rate={rates}", "--env", f"GO={go}")
    metric = ("--metric", "accuracy=accuracy ([0-9.]+)")
    return ("sweep", "--at-once", "2", "--script", "train.py", *sets, *metric), go


def has_begun(go: Path, rate: str) -> bool:
    """Whether the trial trains: its file has its pid."""
    path = go.with_name(f"go.{rate}")
    return path.exists() and path.read_text() != ""


def hosts_of(operator: Operator, run: str) -> str:
    """The names of the hosts of a trial's run."""
    path = next(operator.folder.glob(f"results/sweep-*/{run}/run.json"))
    return " ".join(host["name"] for host in json.loads(path.read_text())["hosts"])


def test_trials_at_once_one_is_killed_and_the_others_end(operator: Operator) -> None:
    command, go = sweep_of(operator, "0.1,0.2,0.3")
    sweep = operator.start(*command)
    wait_until(lambda: has_begun(go, "0.1") and has_begun(go, "0.2"), 150, "two trials at once")
    assert not has_begun(go, "0.3")
    os.kill(int(go.with_name("go.0.1").read_text()), signal.SIGKILL)
    wait_until(lambda: has_begun(go, "0.3"), 150, "the slice of the killed trial takes the third")
    go.touch()
    out, _ = sweep.communicate(timeout=90)
    assert sweep.returncode == 0, out
    for words in ("rate=0.1  failed, run", "rate=0.2  ok, run", "rate=0.3  ok, run"):
        assert words in out, out
    assert "best of 3 trials: rate=0.3, accuracy 30.00 %" in out
    assert any(line.startswith("trial 2: run ") for line in out.splitlines()), out
    runs = json.loads(next(operator.folder.glob("results/sweep-*/sweep.json")).read_text())["runs"]
    hosts = {run: hosts_of(operator, run) for run in runs.values()}
    assert sorted({*hosts.values()}) == ["h1", "h2"]
    on_second = next(run for run in hosts if hosts[run] == "h2")
    operator.fab("logs", "--run", on_second).ended(0, "accuracy")
    done = operator.fab(*command)
    done.ended(0, "all trials have already ended", "best of 3 trials: rate=0.3")
    assert "has changed" not in done.out
    operator.fab("plan").ended(0, "[h1, h2] nothing to do")


def test_ctrl_c_leaves_nothing_of_any_slice(operator: Operator) -> None:
    command, go = sweep_of(operator, "0.1,0.2")
    sweep = operator.start(*command)
    wait_until(lambda: has_begun(go, "0.1") and has_begun(go, "0.2"), 150, "two trials at once")
    sweep.send_signal(signal.SIGINT)
    out, _ = sweep.communicate(timeout=60)
    assert sweep.returncode == 130 and "none of its runs is in progress" in out, out
    wait_until(lambda: not marked(operator.home), 20, "the supervisors have ended")
    go.touch()
    operator.fab(*command).ended(0, "best of 2 trials: rate=0.2")
