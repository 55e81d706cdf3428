"""Cases of `make campaign-survive`: a training with random kills. Not a part of `make test`."""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
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

from bootstrap.untrusted.records import records

SEED = int(os.environ.get("RAILHEAD_SURVIVE_SEED", "0"))
CASES = 5
SETTINGS = (*DIGITS, "epochs=12")


def processes_of(operator: Operator, *words: str) -> list[int]:
    """The pids of this person's runs whose command line or variables have the words."""
    pids = []
    home = f"RAILHEAD_HOME={operator.home}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            text = (entry / "environ").read_bytes() + b"\0" + (entry / "cmdline").read_bytes()
            if home in text and all(word.encode() in text for word in words):
                pids.append(int(entry.name))
    return pids


def victims(operator: Operator, kind: str) -> list[int]:
    """The processes that a kill of this kind hits."""
    if kind == "daemon":
        return [p for p in processes_of(operator) if _name(p) == "orted"]
    rank = kind.removeprefix("rank ")
    number = f"\0OMPI_COMM_WORLD_RANK={rank}\0"
    return processes_of(operator, "rank.rank", number)


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def step_times(metrics: Path) -> list[tuple[float, int]]:
    """(time, step) of the progress of rank 0, in the order of the file."""
    if not metrics.exists():
        return []
    found = [r for r in json_lines_so_far(metrics) if r.get("kind") == "progress" and not r["rank"]]
    return [(r["time"], r["step"]) for r in found]


def json_lines_so_far(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def wait_for_steps(metrics: Path, count: int) -> None:
    """Wait until so many records of progress are there."""
    wait_until(lambda: len(step_times(metrics)) >= count, 300, "it trains")


@pytest.fixture(scope="session")
def unbroken(trained: Training, ready: Path, shared_caches: Path, tmp_path_factory: Any) -> Path:
    """The results of the same training without kills."""
    operator = Operator(ready, tmp_path_factory.mktemp("unbroken"), shared_caches)
    operator.fab(*with_settings(SETTINGS), seconds=600).ended(0)
    return operator.last


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", range(CASES))
def test_a_training_survives_random_kills(operator: Operator, unbroken: Path, number: int) -> None:
    chosen = random.Random(f"{SEED}-{number}")
    kinds = [chosen.choice(("rank 0", "rank 1", "daemon")) for _ in range(chosen.randint(1, 3))]
    run = run_id(operator.fab(*with_settings(SETTINGS), "--detach").ended(0).out)
    metrics = operator.run_folder(run) / "results/metrics.jsonl"
    killed: list[tuple[str, float]] = []
    for kind in kinds:
        wait_for_steps(metrics, len(step_times(metrics)) + 2)
        time.sleep(chosen.uniform(0, 2))
        at, pids = time.time(), victims(operator, kind)
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not pids:  # it has ended meanwhile
            break
        killed.append((kind, at))
    out = operator.fab("attach", "--run", run, seconds=600).ended(0, "succeeded").out
    assert not marked(operator.home), out
    result = operator.result()
    attempts = result.get("attempts", [])
    assert [a["cause"]["class"] for a in attempts] == ["host"] * len(attempts)
    assert len(attempts) <= len(killed)
    current, complete = (
        records(operator.last / "metrics.jsonl"),
        records(unbroken / "metrics.jsonl"),
    )
    ours = {r.epoch: r.figure("loss") or 0.0 for r in current if r.kind == "epoch"}
    theirs = {r.epoch: r.figure("loss") or 0.0 for r in complete if r.kind == "epoch"}
    assert len([r for r in current if r.kind == "epoch"]) == len(theirs)
    assert all(math.isclose(ours[e], theirs[e], rel_tol=1e-4) for e in theirs), (ours, theirs)
    steps = [r.step or 0.0 for r in current if r.kind == "progress" and r.rank == 0]
    assert steps == sorted({*steps})
    times = step_times(operator.last / "metrics.jsonl")
    messages = [r for r in json_lines(operator.last / "metrics.jsonl") if r["kind"] == "message"]
    first = times[0][0] - min(r["time"] for r in messages if "loading" in r["text"])
    for kind, at in killed:
        after = [t for t, _ in times if t > at + 1.5]
        if after:
            print(
                f"\nFIGURE {kind}: {after[0] - at:.1f} s to the next step; TensorFlow's {first:.1f}"
            )
