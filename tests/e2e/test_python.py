"""The Python API on two local hosts: train, evaluate and report in one script.

Deploying and predicting is in test_sagemaker_journey.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from draws import drawn
from e2e.local_hosts import Operator
from places import ROOT

SCRIPT = """
import railhead
run = railhead.Cluster().train(preset="smoke", minimum={"accuracy": 0.05}, OPTIONS)
assert run.state == "succeeded"
trained = run.evaluation()
found = run.evaluate(minimum={"accuracy": 0.05})
assert found["confusion"] == trained["confusion"] and found["model"] == trained["model"]
assert [r for r in run.metrics() if r["kind"] == "epoch"]
assert "Confusion matrix" in run.report().read_text()
"""
# The launcher's default strategy for several hosts, by its name or not.
OPTIONS = ({"launcher": "tensorflow"}, {"launcher": "tensorflow", "strategy": "multiworker"})


def test_a_script_trains_with_tensorflows_launcher_evaluates_and_reports(
    operator: Operator,
) -> None:
    options = ", ".join(f"{name}={value!r}" for name, value in drawn(OPTIONS).items())
    script = operator.write("notebook.py", SCRIPT.replace("OPTIONS", options))
    environment = {**operator.environment(), "PYTHONPATH": str(ROOT)}
    environment["PYTHONPATH"] += os.pathsep + operator.environment().get("PYTHONPATH", "")
    done = subprocess.run(
        [sys.executable, str(script)], cwd=operator.folder, env=environment, timeout=280,
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    run = json.loads((operator.last / "run.json").read_text())
    assert run["strategy"] == "multiworker" and len({*run["tf_cluster"]["worker"]}) == 2
