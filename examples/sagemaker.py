"""A program written for Amazon SageMaker: docs/coming-from.md has its commands."""

import argparse
import json
import os

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
epochs = parser.parse_args().epochs
hvd.init()
data = np.load(os.environ["SM_CHANNEL_TRAIN"] + "/points.npz")
x, y = data["x"], data["y"]
held_out = len(x) // 4
mine = slice(held_out + hvd.rank(), None, hvd.size())

model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(2,))])
model.compile(
    hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1 * hvd.size())),
    tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
start = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
model.fit(x[mine], y[mine], epochs=epochs, callbacks=[start], verbose=0)
if hvd.rank() == 0:
    loss, accuracy = model.evaluate(x[:held_out], y[:held_out], verbose=0)
    print("@railhead " + json.dumps({"kind": "evaluation", "accuracy": accuracy, "loss": loss}))
    model.save(os.environ["SM_MODEL_DIR"] + "/1")
