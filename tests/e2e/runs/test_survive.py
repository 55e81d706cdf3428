"""A run survives random faults: a sample of `make campaign-survive` with a program that counts.

The seed is printed; RAILHEAD_SURVIVE_SEED repeats it.
"""

from __future__ import annotations

import os
import random
import time

from e2e import faults
from e2e.local_hosts import Operator, marked, run_id

SEED = int(os.environ.get("RAILHEAD_SURVIVE_SEED") or random.randrange(10_000))
STEPS = 40
SCRIPT = f"""
import os, pathlib, time
folder = pathlib.Path(os.environ["RAILHEAD_CHECKPOINT_DIR"])
file, rank = folder / "step", int(os.environ["RAILHEAD_RANK"])
begin = int(file.read_text()) if file.exists() else 0
for step in range(begin + 1, {STEPS} + 1):
    time.sleep(0.25)
    if rank == 0:
        print("loss", 1 / step, flush=True)
        (folder / ".step").write_text(str(step))
        (folder / ".step").replace(file)
"""


def test_a_run_survives_random_faults_and_no_step_counts_twice(operator: Operator) -> None:
    chosen = random.Random(SEED)
    kinds = [chosen.choice(faults.CONTINUES) for _ in range(2)]
    print(f"RAILHEAD_SURVIVE_SEED={SEED}: {', '.join(kinds)}")
    operator.write("steps.py", SCRIPT)
    words = (
        "train",
        "--script",
        "steps.py",
        "--launcher",
        "tensorflow",
        *faults.METRIC,
        "--detach",
    )
    run = run_id(operator.fab(*words).ended(0).out)
    metrics = operator.run_folder(run) / "results/metrics.jsonl"
    for kind in kinds:
        faults.wait_for_steps(metrics, 2)
        time.sleep(chosen.uniform(0, 0.5))
        faults.happen(operator, kind)
    out = operator.fab("attach", "--run", run).ended(0, "succeeded").out
    assert not marked(operator.home), out
    attempts = operator.result().get("attempts", [])
    assert len(attempts) <= len(kinds) and {a["kind"] for a in attempts} <= {"retry"}
    steps = faults.steps_of(operator.last / "metrics.jsonl")
    assert steps == sorted({*steps}) and steps[-1] == STEPS
