"""The Python API on two local hosts: train, evaluate, report, deploy and predict in one script."""

from __future__ import annotations

import os
import subprocess
import sys

from e2e.local_hosts import REPO, Operator, listens
from standins.servers import free_port

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

from training.data.formats.digits import HELD_OUT, read_all
held_out = read_all()
images, digits = held_out.values[-HELD_OUT:], held_out.labels[-HELD_OUT:]
endpoint = run.deploy("digits", port=PORT)
right = 0
for first in range(0, HELD_OUT, 100):
    outputs = endpoint.predict(images[first:first + 100])
    right += int((outputs.argmax(1) == digits[first:first + 100]).sum())
assert endpoint.version == 1 and [t.shape for t in endpoint.signature.inputs.values()] == [
    (None, 8, 8, 1)
]
assert right == round(trained["accuracy"] * HELD_OUT), (right, trained)
endpoint.delete()
print("all is well")
"""


def test_a_script_trains_evaluates_reports_and_predicts(operator: Operator) -> None:
    port = free_port()
    script = operator.write("notebook.py", SCRIPT.replace("PORT", str(port)))
    environment = {**operator.environment(), "PYTHONPATH": str(REPO)}
    environment["PYTHONPATH"] += os.pathsep + environment.get("PYTHONPATH", "")
    done = subprocess.run(
        [sys.executable, str(script)], cwd=operator.folder, env=environment, timeout=300,
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is below --min accuracy=0.999" in done.stdout and "all is well" in done.stdout
    assert not listens(port)
