"""`fit` of Keras 3 with TensorFlow's MultiWorkerMirroredStrategy, unchanged by Railhead."""

import json
import os

import keras
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()  # reads TF_CONFIG
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]

x = keras.random.normal([1024, 8], seed=1)
y = keras.ops.sum(x, axis=1, keepdims=True)
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(64)  # the global batch, of all workers

with strategy.scope():
    model = keras.Sequential([keras.Input([8]), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
losses = model.fit(data, epochs=3, verbose=0).history["loss"]
print(f"worker {index} of {strategy.num_replicas_in_sync}, losses: {losses}")
if index == 0:
    model.save("model.keras")
