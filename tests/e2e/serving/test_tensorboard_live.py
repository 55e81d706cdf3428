"""Numbers in a script's output become curves, which TensorBoard shows during the run."""

from __future__ import annotations

import json
import signal
import urllib.request
from typing import Any

from e2e.local_hosts import Operator, marked, wait_until

SCRIPT = """
import os, time
for step in range(int(os.environ["STEPS"])):
    print(f"step {step} loss: {1 / (step + 1):.4f}", flush=True)
    time.sleep(float(os.environ["PAUSE"]))
"""
TRAIN = ("train", "--launcher", "tensorflow", "--independent", "--script", "train.py")
METRIC = ("--metric", "loss=loss: ([0-9.]+)", "--metric", "slow=^(a+)+$")


def records(operator: Operator) -> list[dict[str, Any]]:
    lines = (operator.last / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == "metric"]


def test_numbers_of_rank_0_become_records_and_curves(operator: Operator) -> None:
    operator.write("train.py", SCRIPT)
    words = ("--env", "STEPS=5", "--env", "PAUSE=0")
    operator.fab(*TRAIN, *METRIC, *words).ended(0, "tensorboard/metrics/events", "curves.svg")
    points = [(r["name"], r["value"], r["number"], r["rank"]) for r in records(operator)]
    assert points == [("loss", round(1 / n, 4), n, 0) for n in range(1, 6)]


def test_tensorboard_follows_a_run_and_leaves_nothing(operator: Operator) -> None:
    operator.write("train.py", SCRIPT)
    words = ("--env", "STEPS=6000", "--env", "PAUSE=0.1", "--detach")
    operator.fab(*TRAIN, *METRIC, *words).ended(0)
    shown = operator.start("tensorboard")
    assert shown.stdout
    address = next(line for line in shown.stdout if "http://" in line).split()[-1]
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def points() -> int:
        url = f"{address}data/plugin/scalars/scalars?run=tensorboard/metrics&tag=loss"
        try:
            with direct.open(url, timeout=10) as answer:
                return len(json.loads(answer.read()))
        except OSError:
            return 0

    wait_until(lambda: points() > 0, 150, "the curve is shown")
    before = points()
    wait_until(lambda: points() > before, 150, "new points arrive")
    shown.send_signal(signal.SIGINT)
    out, _ = shown.communicate(timeout=30)
    assert shown.returncode == 0 and "TensorBoard has ended" in out
    assert points() == 0, "nothing answers"
    assert marked(operator.home), "the run continues"
    operator.fab("cancel").ended(0)
