#!/bin/sh
# Keras 3.15.1 on TensorFlow 2.18.1: with a seed, fit(shuffle=True) has one order for all epochs.
#
# The arrays are shuffled by tf.random.shuffle inside a tf.data map, whose seed is fixed when the
# map is traced, and each epoch begins its random numbers again. Without a seed the epochs differ;
# tf_keras 2.18.0 (Keras 2), on the same seed, shuffles each epoch anew. Seen:
#
#   keras     seed None: 3 orders in 3 epochs
#   keras     seed 7: 1 orders in 3 epochs
#   tf_keras  seed 7: 3 orders in 3 epochs
#
# Needs Python 3.11 or 3.12. Exits with 1 if that changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
packages="tensorflow-cpu==2.18.1 keras==3.15.1 tf_keras==2.18.0"
if command -v uv > /dev/null; then
    # shellcheck disable=SC2086
    uv pip install --quiet --python "$folder/venv/bin/python" $packages
else
    # shellcheck disable=SC2086
    "$folder/venv/bin/python" -m pip install --quiet $packages
fi
cat > "$folder/orders.py" << 'END'
import importlib, sys
import numpy as np, tensorflow as tf

name, seed = sys.argv[1], sys.argv[2]
keras = importlib.import_module(name)
if seed != "None":
    keras.utils.set_random_seed(int(seed))
seen = []

class Recorder(keras.Model):
    def train_step(self, data):
        tf.py_function(lambda x: seen.extend(x.numpy().ravel().tolist()), [data[0]], [])
        return {"n": tf.constant(0.0)}

model = Recorder()
model.compile()
x = np.arange(12, dtype="float32")[:, None]
model.fit(x, x, batch_size=4, epochs=3, verbose=0, shuffle=True)
orders = {tuple(seen[begin:begin + 12]) for begin in (0, 12, 24)}
print(f"{name:9} seed {seed}: {len(orders)} orders in 3 epochs")
END
export CUDA_VISIBLE_DEVICES=-1 TF_CPP_MIN_LOG_LEVEL=3
python=$folder/venv/bin/python
{
    "$python" "$folder/orders.py" keras None
    "$python" "$folder/orders.py" keras 7
    "$python" "$folder/orders.py" tf_keras 7
} 2> /dev/null | tee "$folder/seen"
diff - "$folder/seen" << 'END'
keras     seed None: 3 orders in 3 epochs
keras     seed 7: 1 orders in 3 epochs
tf_keras  seed 7: 3 orders in 3 epochs
END
