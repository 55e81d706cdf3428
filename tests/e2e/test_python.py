"""The Python API on two local hosts: train, evaluate and report in one script."""

from __future__ import annotations

import os
import subprocess
import sys

from e2e.local_hosts import REPO, Operator

SCRIPT = """
import railhead
run = railhead.Cluster().train(preset="smoke", minimum={"accuracy": 0.05})
assert run.state == "succeeded"
trained = run.evaluation()
found = run.evaluate(minimum={"accuracy": 0.05})
assert found["confusion"] == trained["confusion"] and found["model"] == trained["model"]
try:
    run.evaluate(minimum={"accuracy": 0.999})
except railhead.BelowThreshold as error:
    print(error)
assert [r for r in run.metrics() if r["kind"] == "epoch"]
assert "Confusion matrix" in run.report().read_text()
print("all is well")
"""


def test_a_script_trains_evaluates_and_reports(operator: Operator) -> None:
    script = operator.write("notebook.py", SCRIPT)
    environment = {**operator.environment(), "PYTHONPATH": str(REPO)}
    environment["PYTHONPATH"] += os.pathsep + environment.get("PYTHONPATH", "")
    done = subprocess.run(
        [sys.executable, str(script)], cwd=operator.folder, env=environment, timeout=250,
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is below --min accuracy=0.999" in done.stdout and "all is well" in done.stdout
