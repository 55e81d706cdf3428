"""MNIST and Fashion-MNIST by the Python API, from the IDX files to the end of the endpoint."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from e2e.local_hosts import Operator
from places import ROOT

SCRIPT = """
import socket, sys
from pathlib import Path
import numpy as np
import railhead
from training.data.formats.mnist import array, find

preset, folder, gate = sys.argv[1], sys.argv[2], float(sys.argv[3])
data = {"train": folder, "test": folder}
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]

run = railhead.Cluster().train(preset=preset, data=data, minimum={"accuracy": gate})
found = run.evaluate(minimum={"accuracy": gate})
with run.deploy("images", port=port) as endpoint:
    images = array(find(Path(folder), "t10k-images"))[..., None]
    labels = array(find(Path(folder), "t10k-labels"))
    right = 0
    for begin in range(0, len(labels), 1000):
        chosen = slice(begin, begin + 1000)
        outputs = np.asarray(endpoint.predict(images[chosen]))
        right += int((outputs.argmax(axis=1) == labels[chosen]).sum())
assert found["accuracy"] >= gate, found
assert abs(right / len(labels) - found["accuracy"]) < 1e-4, (right, len(labels), found["accuracy"])
with socket.socket() as probe:
    assert probe.connect_ex(("127.0.0.1", port)) != 0, "something listens yet"
print(f"accuracy {found['accuracy']:.4f} of {len(labels)} samples, by evaluation and endpoint")
"""
SETS = [("mnist", "RAILHEAD_MNIST", 0.985), ("fashion-mnist", "RAILHEAD_FASHION_MNIST", 0.88)]


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(("preset", "variable", "gate"), SETS, ids=[one[0] for one in SETS])
def test_images_from_training_to_the_end_of_the_endpoint(
    operator: Operator, preset: str, variable: str, gate: float
) -> None:
    if variable not in os.environ:
        pytest.skip(f"{variable} names no folder of its IDX files")
    script = operator.write("images.py", SCRIPT)
    environment = {**operator.environment(), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(script), preset, os.environ[variable], str(gate)],
        cwd=operator.folder, env=environment, timeout=2300,
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "by evaluation and endpoint" in done.stdout
