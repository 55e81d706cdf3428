#!/bin/sh
# Keras 3.15.1 on tensorflow-cpu 2.18.1, one process: a model with two equal outputs is evaluated on
# 17 samples in batches of 16, beside tf_keras 2.18.0.
#
# Expected: the loss of an output is its mean over the samples, so that the outputs' losses add up
# to the loss.
# Seen on 2026-11-28: [loss, output, output]
#   keras      [35.88, 145.0, 145.0]
#   tf_keras   [35.88, 17.94, 17.94]
# In Keras 3 an output's loss is the mean of the batches' means: the one sample of the last batch
# counts as sixteen. Exits 1 if this changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet tensorflow-cpu==2.18.1 keras==3.15.1 tf_keras==2.18.0
cat >"$work/losses.py" <<'PY'
import importlib
import sys

import numpy as np

keras = importlib.import_module(sys.argv[1])
x, y = np.ones((17, 1), "float32"), np.zeros((17, 1), "float32")
y[16] = 18
inputs = keras.Input((1,))
layers = [keras.layers.Dense(1, kernel_initializer="ones", name=name) for name in "ab"]
model = keras.Model(inputs, [layer(inputs) for layer in layers])
model.compile("sgd", ["mse", "mse"])
losses = model.evaluate(x, [y, y], batch_size=16, verbose=0)
print(sys.argv[1], [round(float(loss), 2) for loss in losses])
PY
export TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=-1
for name in keras tf_keras; do
    "$work/venv/bin/python" "$work/losses.py" "$name" 2>/dev/null
done | tee "$work/seen"
grep -qx 'keras \[35.88, 145.0, 145.0\]' "$work/seen"
grep -qx 'tf_keras \[35.88, 17.94, 17.94\]' "$work/seen"
