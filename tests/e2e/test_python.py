"""The Python API on two local hosts: train, evaluate and report in the notebook of the examples.

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

NOTEBOOK = json.loads((ROOT / "examples/notebook.ipynb").read_text())
CHECKS = """
assert run.state == "succeeded"
assert evaluation["confusion"] == run.evaluation()["confusion"]
assert "Confusion matrix" in run.report().read_text()
"""
# The launcher's default strategy for several hosts, by its name or not.
STRATEGIES = ("", ', strategy="multiworker"')


def lines() -> str:
    """The cells of the example on the last hosts, which stay for the next test."""
    cells = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    assert cells[-1] == "cluster.teardown()"
    text = "\n".join(cells[:-1]).replace('railhead.Cluster("a,b")', "railhead.Cluster()")
    return (
        text.replace('launcher="tensorflow"', f'launcher="tensorflow"{drawn(STRATEGIES)}') + CHECKS
    )


def test_the_notebook_trains_with_tensorflows_launcher_evaluates_and_reports(
    operator: Operator,
) -> None:
    script = operator.write("notebook.py", lines())
    environment = {**operator.environment(), "PYTHONPATH": str(ROOT)}
    environment["PYTHONPATH"] += os.pathsep + operator.environment().get("PYTHONPATH", "")
    done = subprocess.run(
        [sys.executable, str(script)], cwd=operator.folder, env=environment, timeout=280,
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    run = json.loads((operator.last / "run.json").read_text())
    assert run["strategy"] == "multiworker" and len({*run["tf_cluster"]["worker"]}) == 2
