#!/bin/sh
# model.fit of Keras under tf.distribute.MirroredStrategy with two replicas, here two halves of the
# CPU, and in one process with the same batches. TensorFlow 2.18.1 with Keras 3.15.1, and with
# tf_keras 2.18.0; Python 3.11.
#
# Expected: the same step, to float tolerance. Seen on 2026-11-28, one batch of 16 samples, SGD:
#                                                         Keras 3.15.1     tf_keras 2.18.0
#   a loss that returns one number (tf.reduce_mean)       twice the step   the same step
#   mixed_float16, an overflow in the first replica       no step          no step
#   mixed_float16, an overflow in the second replica      NaN              no step
#   BatchNormalization, a second batch of one sample      NaN              finite
# Keras 3 divides a loss by the number of replicas only if it has an axis to reduce; asks the first
# replica alone whether the gradients are finite, before they are summed; and takes the mean of no
# samples for a moving average. fit ends without an error. Exits 1 if this changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet tensorflow-cpu==2.18.1 keras==3.15.1 tf_keras==2.18.0
cat >"$work/program.py" <<'PY'
import contextlib
import sys

import numpy as np
import tensorflow as tf

(cpu,) = tf.config.list_physical_devices("CPU")
halves = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(cpu, halves)
if sys.argv[1] == "keras":
    import keras
else:
    import tf_keras as keras
x, y = np.random.RandomState(0).rand(2, 17, 4).astype("float32")


def step(strategy, inputs, samples=16, loss="mse", layers=(), policy="float32"):
    """By how much all weights move."""
    keras.utils.set_random_seed(7)
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(4, dtype=policy)])
        optimizer = keras.optimizers.SGD(0.1)
        if policy != "float32":
            optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)
        model.compile(optimizer, loss)
    before = model.get_weights()
    model.fit(inputs[:samples], y[:samples], batch_size=16, shuffle=False, verbose=0)
    moves = [now - first for now, first in zip(model.get_weights(), before)]
    return np.concatenate([move.ravel() for move in moves])


def mean(labels, outputs):
    return tf.reduce_mean(tf.square(labels - outputs))


two = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
ratio = step(two, x, loss=mean) / step(None, x, loss=mean)
words = [f"{np.median(ratio):.1f}"]
for row in (0, 15):
    infinite = np.where(np.arange(17)[:, None] == row, np.float32("inf"), x)
    moved = step(two, infinite, policy="mixed_float16")
    words.append("NaN" if np.isnan(moved).any() else f"{np.abs(moved).max():.1f}")
normalized = step(two, x, 17, layers=[keras.layers.BatchNormalization()])
words.append("NaN" if np.isnan(normalized).any() else "finite")
print(*words)
PY
export CUDA_VISIBLE_DEVICES=-1 TF_CPP_MIN_LOG_LEVEL=3
new=$("$work/venv/bin/python" "$work/program.py" keras 2>/dev/null)
old=$("$work/venv/bin/python" "$work/program.py" tf_keras 2>/dev/null)
echo "Keras 3.15.1:    $new"
echo "tf_keras 2.18.0: $old"
[ "$new" = "2.0 0.0 NaN NaN" ] && [ "$old" = "1.0 0.0 0.0 finite" ]
