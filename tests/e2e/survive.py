"""Cases of `make campaign-survive`: a training with random faults. Not a part of `make test`."""

from __future__ import annotations

import math
import os
import random
import time
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

from bootstrap.remote.rank.rank_link import LIMIT
from bootstrap.untrusted.records import records

SEED = int(os.environ.get("RAILHEAD_SURVIVE_SEED", "0"))
CASES = 5
SETTINGS = (*DIGITS, "epochs=12")


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
    kinds = [chosen.choice(faults.CONTINUES) for _ in range(chosen.randint(1, 3))]
    if chosen.random() < 0.3:
        kinds[-1] = chosen.choice(faults.ENDS)
    run = run_id(operator.fab(*with_settings(SETTINGS), "--detach").ended(0).out)
    metrics = operator.run_folder(run) / "results/metrics.jsonl"
    happened: list[tuple[str, float]] = []
    for kind in kinds:
        faults.wait_for_steps(metrics, 2)
        time.sleep(chosen.uniform(0, 2))
        at = time.time()
        if not faults.happen(operator, kind):  # it has ended meanwhile
            break
        print(f"\nseed {SEED}, run {number}: {kind}", flush=True)
        happened.append((kind, at))
    if happened and happened[-1][0] in faults.ENDS:
        resume(operator, run, happened[-1])
    else:
        out = operator.fab("attach", "--run", run, seconds=600).ended(0, "succeeded").out
        attempts = operator.result().get("attempts", [])
        assert {a["cause"]["class"] for a in attempts} <= {"host", "network"}, attempts
        assert len(attempts) <= len(happened), out
        print_figures(operator.last, happened)
    assert not marked(operator.home)
    check_curve(operator.last, unbroken)


def resume(operator: Operator, run: str, fault: tuple[str, float]) -> None:
    """The run has ended, or ends within the limit, on all hosts; another one continues it."""
    wait_until(lambda: not marked(operator.home), LIMIT + 60, "it ends on all hosts")
    print(f"\nFIGURE {fault[0]}: all ranks ended after {time.time() - fault[1]:.1f} s")
    if fault[0] == "chief":
        operator.fab("attach", "--run", run, seconds=600).ended(2, "fab start")
        faults.start_hosts_again(operator)
    operator.fab("attach", "--run", run, seconds=600).ended(1, f"fab train --resume {run}")
    operator.fab("train", "--resume", run, seconds=900).ended(0, "succeeded")


def check_curve(folder: Path, unbroken: Path) -> None:
    """Each step counts once, and the losses are those of the run without faults."""
    current, complete = records(folder / "metrics.jsonl"), records(unbroken / "metrics.jsonl")
    ours = {r.epoch or 0: r.figure("loss") or 0.0 for r in current if r.kind == "epoch"}
    theirs = {r.epoch or 0: r.figure("loss") or 0.0 for r in complete if r.kind == "epoch"}
    assert len([r for r in current if r.kind == "epoch"]) == len(ours)
    assert max(ours) == max(theirs)
    # An epoch that a resumed run begins in its middle has the mean of its own steps only.
    whole = sorted(ours) if len(ours) == len(theirs) else sorted(ours)[1:]
    assert all(math.isclose(ours[e], theirs[e], rel_tol=1e-4) for e in whole), (ours, theirs)
    steps = [r.step or 0.0 for r in current if r.kind == "progress" and r.rank == 0]
    assert steps == sorted({*steps})


def print_figures(folder: Path, happened: list[tuple[str, float]]) -> None:
    """Of each fault, the seconds to the next step."""
    times = faults.step_times(folder / "metrics.jsonl")
    messages = [r for r in json_lines(folder / "metrics.jsonl") if r["kind"] == "message"]
    first = times[0][0] - min(r["time"] for r in messages if "loading" in r["text"])
    for kind, at in happened:
        after = [t for t, _ in times if t > at + 1.5]
        if after:
            seconds = after[0] - at
            print(f"\nFIGURE {kind}: {seconds:.1f} s to the next step; TensorFlow's {first:.1f}")
