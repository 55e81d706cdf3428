#!/bin/sh
# Dropout of Keras under tf.distribute.MirroredStrategy with two replicas, here two halves of the
# CPU. TensorFlow 2.18.1 with Keras 3.15.1, and with tf_keras 2.18.0; Python 3.11.
#
# Expected: each replica draws its own mask, as it has other samples.
# Seen on 2026-11-28, in 20 steps of 32 units each, how often the two replicas dropped the same ones:
#   Keras 3.15.1       20 of 20
#   tf_keras 2.18.0    0 of 20
# The state of the layer's seed generator is one of the model's variables: all replicas start from
# the first one's value, and count alike. So do the random layers of augmentation. Exits 1 if this
# changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet tensorflow-cpu==2.18.1 keras==3.15.1 tf_keras==2.18.0
cat >"$work/program.py" <<'PY'
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
strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
with strategy.scope():
    inputs = keras.Input((32,))
    model = keras.Model(inputs, keras.layers.Dropout(0.5)(inputs))


@tf.function
def step():
    return strategy.run(lambda: model(tf.ones((1, 32)), training=True))


equal = 0
for _ in range(20):
    first, second = strategy.experimental_local_results(step())
    equal += bool(np.array_equal(first, second))
print(equal)
PY
export CUDA_VISIBLE_DEVICES=-1 TF_CPP_MIN_LOG_LEVEL=3
new=$("$work/venv/bin/python" "$work/program.py" keras 2>/dev/null)
old=$("$work/venv/bin/python" "$work/program.py" tf_keras 2>/dev/null)
echo "Keras 3.15.1: equal in $new of 20 steps; tf_keras 2.18.0: in $old of 20"
[ "$new" -eq 20 ] && [ "$old" -eq 0 ]
