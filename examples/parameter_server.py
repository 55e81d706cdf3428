"""`fit` of Keras 3 with parameter servers: a chief, servers and workers run the same script."""

import os

import keras
import tensorflow as tf

os.environ["GRPC_FAIL_FAST"] = "use_caller"
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol="grpc",
    ).join()

strategy = tf.distribute.ParameterServerStrategy(resolver)
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
x = keras.random.normal([512, 2], seed=1)
data = tf.data.Dataset.from_tensor_slices((x, tf.reduce_sum(x, axis=1, keepdims=True)))
data = data.shuffle(512).repeat().batch(32)
history = model.fit(data, epochs=2, steps_per_epoch=50, verbose=2).history
model.save("model.keras")
print("losses:", history["loss"])
