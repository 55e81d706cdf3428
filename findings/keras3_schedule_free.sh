#!/bin/sh
# ScheduleFreeAdamW of Keras 3.15.1 on tensorflow-cpu 2.18.1, one process: one step of a model whose
# weights were set before, with a learning rate of 0.1.
#
# Expected: each weight moves by about the learning rate, as with Adam.
# Seen on 2026-11-28: 5, 5, 5 -> -0.1, -0.1, -0.1 in the first step, without an error. The optimizer
# keeps a copy of the weights, which is still zero where `fit` builds it: who loads a model and
# trains on has lost what was loaded. Exits 1 if this changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet tensorflow-cpu==2.18.1 keras==3.15.1
cat >"$work/step.py" <<'PY'
import sys

import keras
import numpy as np

x = np.random.RandomState(0).rand(16, 3).astype("float32")
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, use_bias=False)])
model.set_weights([np.full((3, 1), 5, "float32")])
model.compile(keras.optimizers.ScheduleFreeAdamW(0.1), "mse")
model.fit(x, x.sum(1, keepdims=True), batch_size=16, verbose=0)
weights = model.get_weights()[0].ravel()
print("5, 5, 5 ->", ", ".join(f"{weight:.2f}" for weight in weights))
sys.exit(not np.allclose(np.abs(weights), 0.1, atol=1e-3))
PY
TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES=-1 "$work/venv/bin/python" "$work/step.py" 2>/dev/null
