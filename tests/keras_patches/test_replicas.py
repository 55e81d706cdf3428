"""Two replicas in one process, here two halves of a CPU, train the model of one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

SCRIPT = """
import contextlib, json, os, sys
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
from railhead.keras_patches.patch import install
from railhead.keras_patches.rows import patches_for
if sys.argv[1] == "patched":
    install(patches_for("mirrored"), lambda line: None)
import numpy as np
import tensorflow as tf
tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import keras

x, y = np.random.RandomState(0).rand(2, 17, 4).astype("float32")
infinite = np.where(np.arange(17)[:, None] == 14, np.float32(np.inf), x)  # of the second replica

def number(labels, outputs):
    inner = keras.losses.MeanSquaredError()
    return inner(labels, outputs) + tf.reduce_mean(tf.abs(labels - outputs))

class Guide(keras.Sequential):  # as Keras' guides have it
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        weights = self.trainable_weights
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        for metric in self.metrics:
            metric.update_state(loss)
        return {"loss": self.metrics[0].result(), "returned": loss, "twice": 2 * loss}

def trained(strategy, inputs, samples, loss="mse", layers=(), policy="float32", kind=None):
    keras.utils.set_random_seed(7)
    with strategy.scope() if strategy else contextlib.nullcontext():
        last = keras.layers.Dense(4, dtype=policy)
        model = (kind or keras.Sequential)([keras.Input((4,)), *layers, last])
        optimizer = keras.optimizers.SGD(0.1)
        if policy != "float32":
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=64.0)
        model.compile(optimizer, loss)
    arguments = {"batch_size": 16, "shuffle": False, "verbose": 0}
    history = model.fit(inputs[:samples], y[:samples], **arguments).history
    weights = np.concatenate([array.ravel() for array in model.get_weights()])
    return {name: loss for name, (loss,) in history.items()} | {"weights": weights.tolist()}

two = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
print(json.dumps({
    "number": [trained(strategy, x, 16, number) for strategy in (None, two)],
    "number, 17": [trained(strategy, x, 17, number) for strategy in (None, two)],
    "none": [
        trained(s, x, 16, keras.losses.MeanSquaredError(reduction="none")) for s in (None, two)
    ],
    "guide": [trained(strategy, x, 16, kind=Guide) for strategy in (None, two)],
    "infinite": [trained(s, infinite, 16, policy="mixed_float16") for s in (None, two)],
    "normalized": [
        trained(strategy, x, samples, layers=[keras.layers.BatchNormalization(momentum=0.5)])
        for strategy, samples in ((two, 16), (two, 17))
    ],
}))
"""
Outcomes = dict[str, list[dict[str, Any]]]  # `weights` is a list, all others are numbers


def outcomes(python: str, folder: Path, how: str) -> Outcomes:
    """Of each training: the loss and the weights, in one process and with two replicas."""
    environment = {"PYTHONPATH": str(ROOT), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    argv = [python, "-c", SCRIPT, how]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    results: Outcomes = json.loads(done.stdout.splitlines()[-1])
    return results


@pytest.mark.slow
def test_two_replicas_train_the_model_of_one_process(runtime_python: str, tmp_path: Path) -> None:
    trained = outcomes(runtime_python, tmp_path, "patched")
    one, two = trained["number"]
    assert two["weights"] == pytest.approx(one["weights"], abs=1e-5), "divided once"
    assert two["loss"] == pytest.approx(one["loss"], abs=1e-5)
    one, two = trained["number, 17"]
    assert two["loss"] == pytest.approx(one["loss"], abs=0.1), (
        "a replica has no samples: 0, not NaN"
    )
    for name in ("none", "guide"):
        one, two = trained[name]
        assert two["weights"] == pytest.approx(one["weights"], abs=1e-5), name
        assert two["loss"] == pytest.approx(one["loss"], abs=1e-5), name
    assert two["returned"] == pytest.approx(one["returned"], abs=1e-5)
    assert two["twice"] == pytest.approx(one["twice"] / 2, abs=1e-5), "the script's own number"
    one, two = trained["infinite"]
    assert two["weights"] == one["weights"], "both skip the step in which one of them overflows"
    before, after = trained["normalized"]
    assert after["weights"] == pytest.approx(before["weights"], abs=0.5), "no NaN"
    plain = outcomes(runtime_python, tmp_path, "plain")
    one, two = plain["number"]
    assert two["weights"] != pytest.approx(one["weights"], abs=1e-2), "upstream has corrected it"
    for name, factor in (("none", 2), ("guide", 0.5)):
        one, two = plain[name]
        assert two["loss"] == pytest.approx(factor * one["loss"]), "upstream has corrected it"
    for name in ("infinite", "normalized"):
        assert json.dumps(plain[name][1]).count("NaN") > 1, "upstream has corrected it"
