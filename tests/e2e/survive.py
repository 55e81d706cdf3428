"""Runs with random faults: the cases of `make campaign-survive` and `make campaign-survive-light`.

`make test` has one of them, in runs/test_survive.py.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from e2e import faults
from e2e.local_hosts import (
    DIGITS,
    Operator,
    Training,
    json_lines,
    marked,
    run_id,
    wait_until,
    with_settings,
)

from bootstrap.host.rank.rank_link import LIMIT
from bootstrap.untrusted.records import records

SEED = int(os.environ.get("RAILHEAD_SURVIVE_SEED", "0"))
CASES = 5
SETTINGS = (*DIGITS, "epochs=12")
STEPS = 40
# Each step waits for the other rank, as in an allreduce, and is saved as soon as it is printed.
SCRIPT = f"""
import json, os, pathlib, socket, time
folder = pathlib.Path(os.environ["RAILHEAD_CHECKPOINT_DIR"])
file, rank = folder / "step", int(os.environ["RAILHEAD_RANK"])
host, port = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"][0].split(":")
def connected():
    if rank == 0:
        return socket.create_server(("", int(port))).accept()[0]
    while True:
        try:
            return socket.create_connection((host, int(port)))
        except ConnectionRefusedError:
            time.sleep(0.05)
other = connected()
begin = int(file.read_text()) if file.exists() else 0
for step in range(begin + 1, {STEPS} + 1):
    other.sendall(b"x")
    if not other.recv(1):
        raise ConnectionResetError("the other rank has ended")
    if rank == 0:
        print("loss", 1 / step, flush=True)
        (folder / ".step").write_text(str(step))
        (folder / ".step").replace(file)
        time.sleep(0.25)
"""
COUNTS = (
    *("train", "--script", "steps.py", "--launcher", "tensorflow", "--independent"),
    *faults.METRIC,
)
Fault = tuple[str, float]  # its kind, and when it happened


@pytest.fixture(scope="session")
def unbroken(trained: Training, ready: Path, shared_caches: Path, tmp_path_factory: Any) -> Path:
    """The results of the same training without faults."""
    operator = Operator(ready, tmp_path_factory.mktemp("unbroken"), shared_caches)
    operator.fab(*with_settings(SETTINGS), seconds=600).ended(0)
    return operator.last


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", range(CASES))
def test_a_training_survives_random_faults(operator: Operator, unbroken: Path, number: int) -> None:
    chosen = random.Random(f"{SEED}-{number}")
    happened = survive(operator, with_settings(SETTINGS), chosen, drawn(chosen))
    print_figures(operator.last, happened)
    check_curve(operator.last, unbroken)


@pytest.mark.parametrize("number", range(4 * CASES))
def test_a_program_that_counts_survives_random_faults(operator: Operator, number: int) -> None:
    chosen = random.Random(f"{SEED}-{number}")
    happened = count(operator, chosen, drawn(chosen))
    print_figures(operator.last, happened)


def drawn(chosen: random.Random) -> list[str]:
    """One to three faults; only the last one may end the run."""
    kinds = [chosen.choice(faults.CONTINUES) for _ in range(chosen.randint(1, 3))]
    if chosen.random() < 0.3:
        kinds[-1] = chosen.choice(faults.ENDS)
    return kinds


def count(operator: Operator, chosen: random.Random, kinds: Sequence[str]) -> list[Fault]:
    """The faults that happened in a run of the program that counts, which is correct."""
    operator.write("steps.py", SCRIPT)
    happened = survive(operator, COUNTS, chosen, kinds)
    steps = faults.steps_of(operator.last / "metrics.jsonl")
    assert steps == sorted({*steps}) and steps[-1] == STEPS
    # mpirun reads no output in the second after the death of a rank: one line may come too late.
    assert STEPS + 1 - steps[0] - len(steps) <= len(happened)
    assert steps[0] == 1 or happened[-1][0] in faults.ENDS  # those before are of the earlier run
    return happened


def survive(
    operator: Operator, words: Sequence[str], chosen: random.Random, kinds: Sequence[str]
) -> list[Fault]:
    """The faults that happened in a run, which succeeds and leaves nothing on the hosts."""
    run = run_id(operator.fab(*words, "--detach").ended(0).out)
    metrics = operator.run_folder(run) / "results/metrics.jsonl"
    happened: list[Fault] = []
    for kind in kinds:
        faults.wait_for_steps(metrics, 2)
        time.sleep(chosen.uniform(0, 2))
        at = time.time()
        if not faults.happen(operator, kind):  # it has ended meanwhile
            break
        print(f"\nseed {SEED}: {kind}", flush=True)
        happened.append((kind, at))
    if happened and happened[-1][0] in faults.ENDS:
        resume(operator, run, happened[-1])
    else:
        out = operator.fab("attach", "--run", run, seconds=600).ended(0, "succeeded").out
        attempts = operator.result().get("attempts", [])
        assert {a["cause"]["class"] for a in attempts} <= {"host", "network"}, attempts
        assert {a["kind"] for a in attempts} <= {"retry"} and len(attempts) <= len(happened), out
    wait_until(lambda: not marked(operator.home), 20, "the supervisor has ended")
    return happened


def resume(operator: Operator, run: str, fault: Fault) -> None:
    """The run has ended, or ends within the limit, on all hosts; another one continues it."""
    wait_until(lambda: not marked(operator.home), LIMIT + 60, "it ends on all hosts")
    print(f"\nFIGURE {fault[0]}: all ranks ended after {time.time() - fault[1]:.1f} s")
    if fault[0] == "chief":
        operator.fab("attach", "--run", run, seconds=600).ended(2, "fab start")
        faults.start_hosts_again(operator)
    done = operator.fab("attach", "--run", run, seconds=600)
    if done.code == 0:  # it had succeeded a moment before
        return
    done.ended(1, f"fab train --resume {run}")
    operator.fab("train", "--resume", run, seconds=900).ended(0, "succeeded")


def check_curve(folder: Path, unbroken: Path) -> None:
    """Each step counts once, and the losses are those of the run without faults."""
    current, complete = records(folder / "metrics.jsonl"), records(unbroken / "metrics.jsonl")
    ours = {r.epoch or 0: r.figure("loss") or 0.0 for r in current if r.kind == "epoch"}
    theirs = {r.epoch or 0: r.figure("loss") or 0.0 for r in complete if r.kind == "epoch"}
    assert len([r for r in current if r.kind == "epoch"]) == len(ours)
    if not ours:  # it was resumed after its last step
        last = max(r.step or 0.0 for r in complete)
        assert {r.step for r in current if r.kind == "start"} == {last}
        return
    assert max(ours) == max(theirs)
    # An epoch that a resumed run begins in its middle has the mean of its own steps only.
    whole = sorted(ours) if len(ours) == len(theirs) else sorted(ours)[1:]
    assert all(math.isclose(ours[e], theirs[e], rel_tol=1e-4) for e in whole), (ours, theirs)
    steps = [r.step or 0.0 for r in current if r.kind == "progress" and r.rank == 0]
    assert steps == sorted({*steps})


def print_figures(folder: Path, happened: Sequence[Fault]) -> None:
    """Of each fault, the seconds to the next step, and those in which a training loads. A run that
    was resumed has the steps after its last fault: none if that was at its end."""
    times = faults.step_times(folder / "metrics.jsonl")
    messages = [r for r in json_lines(folder / "metrics.jsonl") if r["kind"] == "message"]
    loading = [r["time"] for r in messages if "loading" in r["text"]]
    own = f"; TensorFlow's {times[0][0] - min(loading):.1f}" if loading and times else ""
    if happened and happened[-1][0] in faults.ENDS:
        happened = happened[-1:]
    for kind, at in happened:
        after = [t for t, _ in times if t > at + 1.5]
        if after:
            print(f"\nFIGURE {kind}: {after[0] - at:.1f} s to the next step{own}")
