"""`fit` of Keras with Horovod: docs/getting-started.md explains it step by step."""

import argparse

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
epochs = parser.parse_args().epochs

hvd.init()
rng = np.random.default_rng(hvd.rank())
x = rng.normal(size=(1024, 8)).astype("float32")
y = x.sum(axis=1, keepdims=True)

model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(8,))])
optimizer = tf.keras.optimizers.SGD(0.05 * hvd.size())
model.compile(hvd.DistributedOptimizer(optimizer), "mse")
callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
model.fit(x, y, epochs=epochs, callbacks=callbacks, verbose=2 if hvd.rank() == 0 else 0)
if hvd.rank() == 0:
    model.save("model.h5")
