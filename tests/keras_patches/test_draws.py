"""Random layers of Keras 3 under a strategy with two replicas, here two halves of a CPU."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from places import ROOT

SCRIPT = """
import json, os, sys
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
from railhead.keras_patches.patch import install
from railhead.keras_patches.rows import patches_for
if sys.argv[1] == "patched":
    install(patches_for("mirrored"), lambda line: None)
import tensorflow as tf
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import keras

def drawn(strategy):
    keras.utils.set_random_seed(7)
    with strategy.scope():
        inputs = keras.Input((64,))
        outputs = keras.layers.Dropout(0.5)(keras.layers.Dense(64)(inputs))
        model = keras.Model(inputs, keras.layers.Dropout(0.5)(outputs * 0 + 1))
    call = tf.function(lambda: strategy.run(lambda: model(tf.ones((1, 64)), training=True)))
    steps = [strategy.experimental_local_results(call()) for _ in range(3)]
    kernels = strategy.experimental_local_results(model.layers[1].kernel.value)
    same = all((kernels[0].numpy() == kernel.numpy()).all() for kernel in kernels)
    return [[value.numpy().ravel().tolist() for value in step] for step in steps], same

two = drawn(tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"]))
one = drawn(tf.distribute.OneDeviceStrategy("cpu:0"))
print(json.dumps([*two, one[0]]))
"""
Steps = list[list[list[float]]]


def draws(python: str, folder: Path, how: str) -> tuple[Steps, bool, Steps]:
    """Three steps of both replicas; whether their weights are the same; three steps of one."""
    environment = {"PYTHONPATH": str(ROOT), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    argv = [python, "-c", SCRIPT, how]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    two, same, one = json.loads(done.stdout.splitlines()[-1])
    return two, same, one


@pytest.mark.slow
def test_each_replica_drops_its_own_units_and_the_first_those_of_before(
    runtime_python: str, tmp_path: Path
) -> None:
    two, same, one = draws(runtime_python, tmp_path, "patched")
    plain, same_before, one_before = draws(runtime_python, tmp_path, "plain")
    assert all(first == second for first, second in plain), "upstream has corrected the fault"
    assert all(first != second for first, second in two)
    assert [first for first, _ in two] == [first for first, _ in plain]
    assert one == one_before and same and same_before
    assert len({str(mask) for step in two for mask in step}) == 6, "each step has other masks"
