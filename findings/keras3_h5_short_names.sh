#!/bin/sh
# Keras 3.12.4 and 3.15.1: a .h5 file of a model that was compiled with loss="mse" or "mae" is
# written without a word, and load_model refuses it, in the same version too.
#
# The file has the short name as {"class_name": "function", "config": "mse"}, which is looked up as
# a class. The same loss by its long name loads, also as a .keras file with the short one. A program
# that resumes from model.h5 starts anew, or fails; load_model(..., compile=False) loads it, without
# the state of the optimizer. Seen:
#
#   mse .h5: ValueError
#   mse .h5, compile=False: loads
#   mse .keras: loads
#   mae .h5: ValueError
#   mean_squared_error .h5: loads
#
# Needs Python 3.11 or later. Exits with 1 if that changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
packages="keras==3.15.1 h5py==3.14.0 numpy==2.4.6 jax==0.6.2"
if command -v uv > /dev/null; then
    # shellcheck disable=SC2086
    uv pip install --quiet --python "$folder/venv/bin/python" $packages
else
    # shellcheck disable=SC2086
    "$folder/venv/bin/python" -m pip install --quiet $packages
fi
cat > "$folder/files.py" << 'END'
import sys

import keras

def outcome(loss, ending, **options):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile("adam", loss, metrics=[loss])
    path = sys.argv[1] + "/model" + ending
    model.save(path)
    try:
        keras.models.load_model(path, **options)
    except ValueError as error:
        return type(error).__name__
    return "loads"

print("mse .h5:", outcome("mse", ".h5"))
print("mse .h5, compile=False:", outcome("mse", ".h5", compile=False))
print("mse .keras:", outcome("mse", ".keras"))
print("mae .h5:", outcome("mae", ".h5"))
print("mean_squared_error .h5:", outcome("mean_squared_error", ".h5"))
END
KERAS_BACKEND=jax "$folder/venv/bin/python" "$folder/files.py" "$folder" 2> "$folder/errors" |
    tee "$folder/seen"
diff - "$folder/seen" << 'END'
mse .h5: ValueError
mse .h5, compile=False: loads
mse .keras: loads
mae .h5: ValueError
mean_squared_error .h5: loads
END
