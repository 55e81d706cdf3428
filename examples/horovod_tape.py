"""A training loop of your own with Horovod's gradient tape."""

import horovod.tensorflow as hvd
import keras
import tensorflow as tf

hvd.init()
gpus = tf.config.list_physical_devices("GPU")
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

x = tf.random.stateless_normal([1024, 8], [1, hvd.rank()])  # each rank has its own samples
y = tf.reduce_sum(x, axis=1, keepdims=True)
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1024, seed=1).repeat().batch(32)

model = keras.Sequential([keras.Input([8]), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.02 * hvd.size())
optimizer.build(model.trainable_variables)
hvd.broadcast_variables(model.variables, root_rank=0)
hvd.broadcast_variables(optimizer.variables, root_rank=0)


@tf.function
def train_step(inputs, targets):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(inputs, training=True) - targets) ** 2)
    tape = hvd.DistributedGradientTape(tape)  # averages the gradients of all ranks
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for step, (inputs, targets) in enumerate(data.take(100)):
    loss = hvd.allreduce(train_step(inputs, targets))
    if step % 25 == 24 and hvd.rank() == 0:
        print(f"step {step + 1} on {hvd.size()} ranks, loss: {float(loss):.4f}")
if hvd.rank() == 0:
    model.save("model.keras")
