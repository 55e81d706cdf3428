"""Scripts that runs execute: ranks that join each other without TensorFlow."""

from __future__ import annotations

# Joins the ranks as Horovod would, without the seconds of TensorFlow's import.
JOIN = """
import ctypes, os, sys, time, json, pathlib
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
import atexit
atexit.register(mpi.MPI_Finalize)
rank = int(os.environ["RAILHEAD_RANK"])
"""
# Runs for minutes, with a child in its session and one outside it.
SLOW = (
    JOIN
    + """
import subprocess
subprocess.Popen(["sleep", "3600"])
subprocess.Popen(["sleep", "3601"], start_new_session=True)
for tick in range(6000):
    print("tick", tick)
    time.sleep(0.1)
"""
)
# Written for Keras 2: `fit`, then a loop of its own. Prints the weights of each rank.
HOROVOD_ON_KERAS_2 = """
import numpy as np, tensorflow as tf
import horovod.tensorflow as tape_hvd
import horovod.tensorflow.keras as hvd
hvd.init()
tf.keras.utils.set_random_seed(hvd.rank())
x = np.random.normal(size=(64, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)
model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.05, momentum=0.9))
model.compile(optimizer, "mse", experimental_run_tf_function=False)
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()
]
losses = model.fit(x, y, epochs=20, callbacks=callbacks, verbose=0).history["loss"]
plain = tf.keras.optimizers.SGD(0.05)

@tf.function
def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
    tape = tape_hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, model.trainable_variables)
    plain.apply_gradients(zip(gradients, model.trainable_variables))
    tape_hvd.broadcast_variables(plain.variables(), root_rank=0)

step()
print("Keras", tf.keras.__version__, "loss falls", losses[-1] < losses[0] / 4)
print("weights", np.concatenate([w.ravel() for w in model.get_weights()]).tolist())
"""
# The custom loop of TensorFlow's tutorial on parameter servers, with less data.
COORDINATOR = """
import os
import tensorflow as tf

os.environ["GRPC_FAIL_FAST"] = "use_caller"
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
        start=True,
    )
    print("serving as", resolver.task_type, resolver.task_id, flush=True)
    server.join()

strategy = tf.distribute.ParameterServerStrategy(resolver)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    optimizer = tf.keras.optimizers.SGD(0.1)


def dataset_fn(context):
    x = tf.random.stateless_normal([512, 2], [1, 2])
    y = tf.reduce_sum(x, axis=1, keepdims=True)
    return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(512).repeat().batch(32)


@tf.function
def step_fn(iterator):
    def replica_fn(batch):
        x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return strategy.run(replica_fn, args=(next(iterator),))


@tf.function
def per_worker_dataset_fn():
    return strategy.distribute_datasets_from_function(dataset_fn)


coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
per_worker = iter(coordinator.create_per_worker_dataset(per_worker_dataset_fn))
for _ in range(100):
    result = coordinator.schedule(step_fn, args=(per_worker,))
coordinator.join()
loss = result.fetch()
assert loss < 0.01, loss
model.save("trained.keras")
print("the loss is", float(loss), "on", len(resolver.cluster_spec().job_tasks("worker")), "workers")
"""
