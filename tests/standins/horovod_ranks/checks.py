"""The rest of Horovod's interface with Keras 3, checked on two ranks; a check fails by raising.

Each check is a function of (hvd, rank, folder). What it compares comes after its last collective
operation: a rank that fails does not leave the other one waiting.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import trainings
from .trainings import EPOCHS, RANKS, SIZE, STEPS, difference, model_of, of_rank, weights_of

# The rate at each batch of LearningRateWarmupCallback(0.4, warmup_epochs=2), two ranks, 4 batches:
# recorded with tf_keras 2.18.
KERAS_2_RATES = [0.225, 0.25, 0.275, 0.3, 0.325, 0.35, 0.375, 0.4]


@contextlib.contextmanager
def refused(*parts: str) -> Iterator[None]:
    """The block must end with a ValueError whose text has all these parts."""
    try:
        yield
    except ValueError as error:
        assert all(text in str(error) for text in parts), error
    else:
        raise AssertionError(f"not refused: {parts}")


def compiled(hvd: Any, rank: int, **options: Any) -> tuple[Any, dict[str, Any]]:
    """A model with a distributed optimizer, and the arguments of `fit`."""
    import keras

    inputs, targets = trainings.data_of("dense")
    model = model_of("dense")
    optimizer = hvd.DistributedOptimizer(trainings.optimizer_of("momentum"))
    eager = "jit_compile" not in options  # it starts sooner than a compiled step
    model.compile(optimizer, keras.losses.MeanSquaredError(), run_eagerly=eager, **options)
    batches = {"x": of_rank(inputs, rank), "y": of_rank(targets, rank), "batch_size": SIZE}
    return model, {**batches, "shuffle": False, "verbose": 0, "epochs": EPOCHS}


def gathered(hvd: Any, values: Any) -> list[Any]:
    """A flat array of each rank."""
    from horovod.tensorflow import allgather

    arrays = [np.ravel(np.asarray(value)) for value in values]
    rows = np.concatenate(arrays).astype("float64")[np.newaxis]
    return list(allgather(rows).numpy())


def check_broadcast(hvd: Any, rank: int, folder: Path) -> None:
    """All variables are those of the root, but each rank has its own states of random numbers:
    also if all of them have set the same seed."""
    for seed in (100 + rank, 100):
        first, second = gathered(hvd, broadcast_with(hvd, rank, seed))
        assert first[0] + 1 == second[0] and first[1] == second[1], (first, second)


def broadcast_with(hvd: Any, rank: int, seed: int) -> list[Any]:
    """The states of random numbers of a model that was trained from a broadcast."""
    import keras

    inputs, targets = trainings.data_of("dense")
    keras.utils.set_random_seed(seed)
    layers = [keras.Input((6,)), keras.layers.Dense(8), keras.layers.Dropout(0.5)]
    model = keras.Sequential([*layers, keras.layers.Dense(3)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9)), "mse")
    model.fit(
        of_rank(inputs, rank),
        of_rank(targets, rank),
        batch_size=SIZE,
        verbose=0,
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)],
    )
    seeds = [item for item in model.variables if item.name == "seed_generator_state"]
    weights = gathered(hvd, model.trainable_variables)
    slots = gathered(hvd, model.optimizer.variables())
    assert np.array_equal(*weights) and np.array_equal(*slots) and len(seeds) == 1
    return seeds


def check_adapted(hvd: Any, rank: int, folder: Path) -> None:
    """A Normalization that was adapted to the data of a rank computes as on rank 0; a rank with
    another vocabulary ends."""
    import keras

    normalization = keras.layers.Normalization()
    normalization.adapt(np.array([[1.0], [3.0]]) + 10 * rank)
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    callback.set_model(keras.Sequential([keras.Input((1,)), normalization]))
    callback.on_train_begin()
    lookup = keras.layers.StringLookup(vocabulary=["a", "b"] if rank == 0 else ["b", "a"])
    callback.set_model(keras.Sequential([keras.Input((1,), dtype="string"), lookup]))
    with contextlib.nullcontext() if rank == 0 else refused(lookup.name, "rank 0"):
        callback.on_train_begin()
    assert normalization(np.array([[2.0], [3.0]])).numpy().tolist() == [[0.0], [1.0]]


def check_averaged(hvd: Any, rank: int, folder: Path) -> None:
    """A callback uses the metrics of all ranks, also in front of MetricAverageCallback."""
    import keras

    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.0)), "mse")
    losses: list[float] = []
    first = keras.callbacks.LambdaCallback(on_epoch_end=lambda _, logs: losses.append(logs["loss"]))
    callbacks = [first, hvd.callbacks.MetricAverageCallback()]
    targets = np.full((4, 1), 2.0 * rank)
    model.fit(np.ones((4, 6)), targets, epochs=2, verbose=0, callbacks=callbacks)
    assert losses == [2.0, 2.0]  # of the ranks' 0 and 4


def check_local_broadcast(hvd: Any, rank: int, folder: Path) -> None:
    """A variable in `local_variables` is not broadcast."""
    model, arguments = compiled(hvd, rank)
    model.layers[0].kernel.assign_add(np.full((6, 8), float(rank)))
    model.layers[1].kernel.assign_add(np.full((8, 3), float(rank)))
    local = [model.layers[0].kernel]
    broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0, local_variables=local)
    broadcast.set_model(model)
    model.optimizer.build(model.trainable_variables)
    broadcast.on_batch_end(0)
    weights = [gathered(hvd, [layer.kernel]) for layer in model.layers]
    assert not np.array_equal(*weights[0]) and np.array_equal(*weights[1])


def check_tape(hvd: Any, rank: int, folder: Path) -> None:
    """A script's own loop has the model of one process, also with groups; as in
    tensorflow2_mnist.py of Horovod's examples."""
    import horovod.tensorflow as tape_hvd

    inputs, targets = trainings.data_of("embedding")
    want = trainings.loop(trainings.TRAININGS["sparse"])[0]
    for grouped in (False, True):
        model, optimizer = model_of("embedding"), trainings.optimizer_of("momentum")
        step = step_of(tape_hvd, model, optimizer, grouped)
        for number in range(STEPS * EPOCHS):
            batch = number % STEPS
            step(inputs[batch, rank], targets[batch, rank], number == 0)
        assert difference(weights_of(model), want) < 1e-5


def step_of(hvd: Any, model: Any, optimizer: Any, grouped: bool) -> Any:
    """The step of a script for Keras 2."""
    import tensorflow as tf

    groups = [model.trainable_variables[1:]] if grouped else None

    @tf.function  # type: ignore[untyped-decorator]
    def step(inputs: Any, targets: Any, first: bool) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(inputs, training=True) - targets))
        tape = hvd.DistributedGradientTape(tape, groups=groups)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        if first:
            hvd.broadcast_variables(model.variables, root_rank=0)
            hvd.broadcast_variables(optimizer.variables(), root_rank=0)

    return step


def check_groups(hvd: Any, rank: int, folder: Path) -> None:
    """Each gradient is reduced once: with its group, by lists or by their number, or alone."""
    import keras
    import tensorflow as tf

    from railhead.keras_patches.horovod.variables import members

    variables = [keras.Variable([0.0]) for _ in range(6)]
    first, second, third, *_, last = variables
    sparse = tf.IndexedSlices(tf.constant([1.0]), tf.constant([0]), tf.constant([1]))
    gradients = [*(tf.constant([1.0]) for _ in range(4)), None, sparse]
    assert members([[first], [third, second, last]], gradients, variables) == [
        [0], [1, 2], [3], [5]
    ]  # fmt: skip
    assert members(3, gradients, variables) == [[0, 1], [2], [3], [5]]


def check_tape_and_optimizer(hvd: Any, rank: int, folder: Path) -> None:
    """Gradients of a distributed tape are not summed again by a distributed optimizer."""
    import horovod.tensorflow as tape_hvd
    import keras
    import tensorflow as tf

    for run in (tf.function, lambda function: function):
        variable = keras.Variable([1.0, 2.0])
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), op=hvd.Sum)

        def step(variable: Any, optimizer: Any) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(variable * float(rank + 1))
            tape = tape_hvd.DistributedGradientTape(tape, op=hvd.Sum)
            optimizer.apply_gradients([(tape.gradient(loss, [variable])[0], variable)])

        run(functools.partial(step, variable, optimizer))()
        assert np.allclose(variable.numpy(), [-2.0, -1.0]), variable.numpy()


def check_partial_tape(hvd: Any, rank: int, folder: Path) -> None:
    """The gradients of local layers stay on their rank, divided by the number of ranks."""
    import horovod.tensorflow as tape_hvd
    import tensorflow as tf

    inputs, targets = trainings.data_of("dense")
    model = model_of("dense")
    alone = [trainings.gradients(model, inputs[0, r], targets[0, r]) for r in range(RANKS)]
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(inputs[0, rank]) - targets[0, rank]))
    tape = tape_hvd.PartialDistributedGradientTape(tape, local_layers=model.layers[0])
    slopes = tape.gradient(loss, model.trainable_variables)
    means = [(a + b) / 2 for a, b in zip(*alone, strict=True)]
    assert difference(slopes, [*(g / 2 for g in alone[rank][:2]), *means[2:]]) < 1e-6


def check_partial_optimizer(hvd: Any, rank: int, folder: Path) -> None:
    """PartialDistributedOptimizer makes what registered variables make."""
    import horovod.keras as keras_hvd

    inputs, targets = trainings.data_of("dense")
    model = model_of("dense")
    optimizer = keras_hvd.PartialDistributedOptimizer(
        trainings.optimizer_of("momentum"), local_layers=[model.layers[0]]
    )
    model.compile(optimizer, "mse")
    batches = of_rank(inputs, rank), of_rank(targets, rank)
    model.fit(*batches, batch_size=SIZE, epochs=EPOCHS, shuffle=False, verbose=0)
    want = trainings.loop(trainings.TRAININGS["local"])[rank]
    assert difference(weights_of(model), want) < 1e-5


def check_adasum(hvd: Any, rank: int, folder: Path) -> None:
    """hvd.Adasum of two gradients, by its formula."""
    import horovod.tensorflow as tape_hvd
    import keras
    import tensorflow as tf

    a, b = np.array([1.0, 2.0, -1.0], "float32"), np.array([0.5, -1.0, 3.0], "float32")
    variable = keras.Variable(np.zeros(3, "float32"))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(variable * (b if rank else a))
    tape = tape_hvd.DistributedGradientTape(tape, op=tape_hvd.Adasum)
    slopes = tape.gradient(loss, [variable])
    dot = float(a @ b)
    want = (1 - dot / (2 * float(a @ a))) * a + (1 - dot / (2 * float(b @ b))) * b
    assert difference(slopes, [want]) < 1e-5, (slopes, want)


def check_warmup(hvd: Any, rank: int, folder: Path) -> None:
    """The rates are Keras 2's, and the momentum is corrected as in a plain loop."""
    import keras

    rates: list[float] = []

    class Rates(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            rates.append(float(self.model.optimizer.lr))

    model, arguments = compiled(hvd, rank)
    warmup = hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.4, warmup_epochs=2)
    history = model.fit(**arguments, callbacks=[warmup, Rates()])
    assert np.allclose(rates, KERAS_2_RATES, atol=1e-7), rates
    assert np.allclose(history.history["lr"], KERAS_2_RATES[3::4], atol=1e-7)
    assert difference(weights_of(model), corrected_momentum()) < 1e-5


def corrected_momentum() -> list[Any]:
    """The weights of a plain loop whose momentum holds updates at the rate of the step."""
    inputs, targets = trainings.data_of("dense")
    model = model_of("dense")
    velocity = [np.zeros_like(weight) for weight in weights_of(model)]
    before = 0.1
    for number, rate in enumerate(KERAS_2_RATES):
        step = number % STEPS
        each = [trainings.gradients(model, inputs[step, r], targets[step, r]) for r in (0, 1)]
        means = [(a + b) / 2 for a, b in zip(*each, strict=True)]
        momentum = 0.9 * rate / before
        velocity = [momentum * v - rate * g for v, g in zip(velocity, means, strict=True)]
        for variable, change in zip(model.trainable_variables, velocity, strict=True):
            variable.assign_add(change)
        before = rate
    return weights_of(model)


def check_schedule(hvd: Any, rank: int, folder: Path) -> None:
    """LearningRateScheduleCallback by epochs; a schedule in the optimizer is refused."""
    import keras

    schedule = hvd.callbacks.LearningRateScheduleCallback(
        0.1, lambda epoch: 0.5**epoch, momentum_correction=False
    )
    model, arguments = compiled(hvd, rank)
    history = model.fit(**arguments, callbacks=[schedule])
    assert np.allclose(history.history["lr"], [0.1, 0.05])
    rates = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(rates)), "mse")
    with refused("LearningRateScheduleCallback", "schedule"):
        model.fit(**arguments, callbacks=[schedule])


def check_metrics(hvd: Any, rank: int, folder: Path) -> None:
    """Callbacks after MetricAverageCallback, and the history, have the mean of all ranks."""
    import keras

    seen: list[float] = []

    class Losses(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            seen.append(logs["loss"])

    model, arguments = compiled(hvd, rank, metrics=["mae"])
    data = {"validation_data": (arguments["x"][:8], arguments["y"][:8])}
    averaging = [Losses(), hvd.callbacks.MetricAverageCallback(), Losses()]
    history = model.fit(**arguments, **data, callbacks=averaging).history
    names = sorted(history)
    ranks = gathered(hvd, [history[name] for name in names])
    before = gathered(hvd, seen[::2])
    assert names == ["loss", "mae", "val_loss", "val_mae"]
    assert np.array_equal(*ranks) and not np.array_equal(*before)
    assert np.allclose(np.mean(before, axis=0), seen[1::2])


def check_not_finite(hvd: Any, rank: int, folder: Path) -> None:
    """An infinite gradient on one rank: all ranks skip the step and halve the loss scale."""
    from keras import Variable
    from keras.optimizers import LossScaleOptimizer

    for inside in (False, True):
        plain = trainings.optimizer_of("momentum")
        if inside:
            optimizer = hvd.DistributedOptimizer(LossScaleOptimizer(plain))
        else:
            optimizer = LossScaleOptimizer(hvd.DistributedOptimizer(plain))
        variable = Variable([1.0, 2.0])
        outcomes = []
        for value in (np.inf if rank else 1.0, 2.0**14):
            gradient = np.array([1.0, value], "float32")
            optimizer.apply_gradients([(gradient, variable)])
            outcomes.append((variable.numpy().tolist(), float(optimizer.dynamic_scale)))
        scales = gathered(hvd, [optimizer.dynamic_scale])
        assert outcomes[0] == ([1.0, 2.0], 2.0**14) and np.array_equal(*scales)
        assert np.allclose(outcomes[1][0], [1.0 - 0.1 / 2**14, 1.9]), outcomes


def check_names(hvd: Any, rank: int, folder: Path) -> None:
    """A distributed optimizer has the class name, the settings and the API of its own class."""
    import keras

    for plain in (
        keras.optimizers.Adam(0.02, beta_1=0.8),
        keras.optimizers.SGD(0.1, nesterov=True),
    ):
        optimizer = hvd.DistributedOptimizer(plain)
        assert (
            isinstance(optimizer, type(plain)) and type(optimizer).__name__ == type(plain).__name__
        )
        assert optimizer.get_config() == plain.get_config()
        again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
        assert type(again) is type(plain) and again.get_config() == plain.get_config()
    assert optimizer.variables() == list(optimizer.variables)
    keras.backend.clear_session()
    optimizer.lr = 0.25
    assert float(optimizer.lr) == float(optimizer.learning_rate) == 0.25
    assert float(keras.optimizers.Adam(lr=0.25).learning_rate) == 0.25
    mean = keras.metrics.Mean()
    mean.update_state(2.0)
    mean.reset_states()
    assert float(mean.result()) == 0.0


def check_load_model(hvd: Any, rank: int, folder: Path) -> None:
    """A saved model loads without Horovod; hvd.load_model continues its training."""
    import keras

    for name in ("model.keras", "model.h5"):
        model, arguments = compiled(hvd, rank)
        arguments |= {"epochs": 1, "steps_per_epoch": 2}
        model.fit(**arguments)
        path = folder / f"{rank}-{name}"
        model.save(path)
        plain, loaded = keras.models.load_model(path), hvd.load_model(str(path))
        assert type(plain.optimizer) is keras.optimizers.SGD
        slots = [model.optimizer.variables, loaded.optimizer.variables]
        assert difference(*[[item.numpy() for item in each] for each in slots]) == 0
        loaded.run_eagerly = True
        for each in (model, loaded):  # Keras does not restore the plain one's optimizer from .h5
            each.fit(**arguments)
        assert difference(weights_of(model), weights_of(loaded)) < 1e-6
        weights = gathered(hvd, loaded.trainable_variables)
        assert np.array_equal(*weights)


def check_continued(hvd: Any, rank: int, folder: Path) -> None:
    """An optimizer that has trained, such as a loaded model's, keeps its steps and its slots where
    the variables are the same; its rate may be changed."""
    import keras

    variables = [keras.Variable([1.0, 2.0]), keras.Variable([3.0])]
    source = keras.optimizers.SGD(0.1, momentum=0.9)
    source.build(variables)
    source.iterations.assign(5)
    source.momentums[1].assign([7.0])
    same, other = hvd.DistributedOptimizer(source), hvd.DistributedOptimizer(source)
    same.learning_rate = 0.01
    same.build(variables)
    other.build(variables[:1])
    assert int(same.iterations) == 5 and same.momentums[1].numpy().tolist() == [7.0]
    assert float(same.learning_rate) == np.float32(0.01) and int(other.iterations) == 0


def check_backup(hvd: Any, rank: int, folder: Path) -> None:
    """All ranks of a host may give BackupAndRestore the same folder."""
    import keras

    callback = keras.callbacks.BackupAndRestore(str(folder / "backup"))
    callback.set_model(keras.Sequential([keras.Input((6,)), keras.layers.Dense(400)]))
    hvd.allreduce(0.0)  # the ranks begin together
    for epoch in range(10):
        callback.on_epoch_end(epoch)
    hvd.allreduce(0.0)
    assert (folder / "backup/latest.weights.h5").exists()
    hvd.allreduce(0.0)
    callback.on_train_end()
    assert not (folder / "backup").exists()


def check_elastic(hvd: Any, rank: int, folder: Path) -> None:
    """KerasState saves, restores and synchronizes; its callbacks count epochs and batches."""
    model, arguments = compiled(hvd, rank)
    arguments["epochs"] = 1
    model.fit(**arguments)
    state = hvd.elastic.KerasState(model, batch=0, epoch=0)
    saved = weights_of(model)
    model.layers[0].kernel.assign_add(np.full((6, 8), 1.0 + rank))
    state.restore()
    assert difference(weights_of(model), saved) == 0
    model.layers[0].kernel.assign_add(np.full((6, 8), 1.0 + rank))
    state.sync()
    weights = gathered(hvd, model.trainable_variables)
    callbacks = [
        hvd.elastic.UpdateEpochStateCallback(state),
        hvd.elastic.UpdateBatchStateCallback(state),
        hvd.elastic.CommitStateCallback(state, batches_per_commit=2),
    ]
    model.fit(**arguments, callbacks=callbacks)
    trained = weights_of(model)
    state.restore()
    assert np.array_equal(*weights) and (state.epoch, state.batch) == (1, 0)
    assert difference(weights_of(model), trained) == 0


def check_best_model(hvd: Any, rank: int, folder: Path) -> None:
    """BestModelCheckpoint saves to the path that is set later."""
    for only_weights, name in ((True, "best.weights.h5"), (False, "best.keras")):
        model, arguments = compiled(hvd, rank)
        best = hvd.callbacks.BestModelCheckpoint(monitor="loss", save_weights_only=only_weights)
        best.filepath = str(folder / f"{rank}-{name}")
        model.fit(**arguments, callbacks=[best])
        assert Path(best.filepath).is_file()


def check_sync_batch_norm(hvd: Any, rank: int, folder: Path) -> None:
    """Moving averages and gradients are those of one process with all samples."""
    import horovod.tensorflow as tape_hvd
    import keras
    import tensorflow as tf

    inputs, targets = trainings.data_of("dense")
    outcomes = []
    for layer, samples in (
        (keras.layers.BatchNormalization(), slice(None)),
        (tape_hvd.SyncBatchNormalization(), slice(rank, rank + 1)),
    ):
        x, y = (np.concatenate(list(array[0, samples])) for array in (inputs, targets))
        kernel = keras.Variable(np.linspace(-1, 1, 18).reshape(6, 3).astype("float32"))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(layer(x, training=True) @ kernel.value - y))
        if len(x) == SIZE:
            tape = tape_hvd.DistributedGradientTape(tape)
        slopes = tape.gradient(loss, [kernel, layer.gamma, layer.beta])
        outcomes.append([*slopes, layer.moving_mean.numpy(), layer.moving_variance.numpy()])
    assert difference(*outcomes) < 1e-5
    with refused("fused"):
        tape_hvd.SyncBatchNormalization(fused=True)


def check_collectives(hvd: Any, rank: int, folder: Path) -> None:
    """Collective operations take Keras variables; objects are broadcast."""
    import horovod.tensorflow as tape_hvd
    import keras

    variable = keras.Variable(np.array([1.0, 2.0], "float32") * (rank + 1), name="v")
    fp16 = {"op": hvd.Sum, "compression": tape_hvd.Compression.fp16}
    total = tape_hvd.allreduce(variable, **fp16).numpy()
    several = tape_hvd.grouped_allreduce([variable, variable], op=hvd.Average)
    both = tape_hvd.allgather(variable).numpy()
    root = tape_hvd.broadcast(variable, 1).numpy()
    sent = tape_hvd.broadcast_object({"rank": rank}, 1)
    tape_hvd.broadcast_variables([variable], 1, inplace=True)
    assert total.tolist() == [3.0, 6.0] and both.tolist() == [1.0, 2.0, 2.0, 4.0]
    assert [each.numpy().tolist() for each in several] == [[1.5, 3.0]] * 2
    assert root.tolist() == variable.numpy().tolist() == [2.0, 4.0] and sent == {"rank": 1}


def check_refusals(hvd: Any, rank: int, folder: Path) -> None:
    """What cannot work is refused by its name."""
    import horovod.tensorflow as tape_hvd
    import tensorflow as tf

    optimizer = trainings.optimizer_of("momentum")
    with refused("Adasum"):
        tape_hvd.DistributedOptimizer(optimizer, op=tape_hvd.Adasum)
    with refused("Average and Sum"):
        hvd.DistributedOptimizer(optimizer, op=tape_hvd.Adasum)
    with refused("use_locking", "Keras 2"):
        tape_hvd.DistributedOptimizer(optimizer, use_locking=True)
    with refused("gradient_predivide_factor", "Average"):
        hvd.DistributedOptimizer(optimizer, gradient_predivide_factor=2.0, op=hvd.Sum)
    with refused("backward_passes_per_step"):
        hvd.DistributedOptimizer(optimizer, backward_passes_per_step=0)
    with refused("groups", "Adasum"):
        tape_hvd.DistributedGradientTape(tf.GradientTape(), op=tape_hvd.Adasum, groups=1)
    with refused("legacy_opts"):
        hvd.load_model("model.h5", legacy_opts=True)
    with refused("jit_compile", "XLA"):
        compiled(hvd, rank, jit_compile=True)
    model = model_of("embedding")
    passes = hvd.DistributedOptimizer(optimizer, backward_passes_per_step=2)
    model.compile(passes, "mse")
    inputs, targets = trainings.data_of("embedding")
    with refused("sparse_as_dense"):
        model.fit(of_rank(inputs, rank), of_rank(targets, rank), verbose=0)


def check_compile(hvd: Any, rank: int, folder: Path) -> None:
    """`compile` drops what Keras 3 does not have, and chooses no XLA where there are GPUs; `fit`
    rounds a number of steps up."""
    import io

    import tensorflow as tf

    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        model, arguments = compiled(hvd, rank, experimental_run_tf_function=False)
    model.fit(**{**arguments, "steps_per_epoch": 1.5, "epochs": 1})
    assert int(model.optimizer.iterations) == 2
    assert output.getvalue().count("experimental_run_tf_function") == (rank == 0)
    devices = tf.config.list_physical_devices
    gpu = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    tf.config.list_physical_devices = lambda *args: [*devices(*args), gpu]
    try:
        model.compile(model.optimizer, "mse")
    finally:
        tf.config.list_physical_devices = devices
    assert model.jit_compile is False


def check_arguments(hvd: Any, rank: int, folder: Path) -> None:
    """Each argument of hvd.DistributedOptimizer changes a step of SGD as it says; `groups` and `op`
    also in horovod.tensorflow, which would ignore them."""
    import horovod.tensorflow as tape_hvd

    fp16 = {"compression": tape_hvd.Compression.fp16}
    for module, options, gradient, want in (
        (tape_hvd, {"op": tape_hvd.Sum, "groups": 1}, rank + 1.0, -3.0),
        (hvd, {"num_groups": 1}, rank + 1.0, -1.5),
        (hvd, {"process_set": hvd.FIRST}, rank + 1.0, -rank - 1.0),
        (hvd, fp16, 1 + 2.0**-12, -1.0),  # 11 bits
        # Half of the sum of two gradients that have a sum only when they are divided before.
        (hvd, {**fp16, "gradient_predivide_factor": 4.0}, 40_000.0, -40_000.0),
        (hvd, fp16, 40_000.0, -np.inf),
    ):
        assert moved_by(module, options, gradient)[0] == want, options
    passes = {"backward_passes_per_step": 2}
    assert moved_by(hvd, passes, rank + 1.0, rank + 3.0) == [0.0, -5.0]
    for options, want in (({}, -(rank + 1.0) / 2), ({"scale_local_gradients": False}, -rank - 1.0)):
        assert moved_by(hvd, options, rank + 1.0, local=True)[0] == want, options
    for dense in (True, False):
        assert sparse_steps(hvd, rank, sparse_as_dense=dense) == ([-1.0, -1.0, 0.0], not dense)


def moved_by(hvd: Any, options: dict[str, Any], *gradients: float, local: bool = False) -> Any:
    """By how much each of these gradients moves a variable."""
    import keras
    import tensorflow as tf

    variable = keras.Variable([0.0])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), **options)
    if local:
        optimizer.register_local_var(variable)
    moves = []
    for gradient in gradients:
        before = float(variable.numpy()[0])
        optimizer.apply_gradients([(tf.constant([gradient]), variable)])
        moves.append(float(variable.numpy()[0]) - before)
    return moves


def sparse_steps(hvd: Any, rank: int, **options: Any) -> tuple[list[float], bool]:
    """What a sparse gradient, of another row on each rank, makes of a variable; and whether the
    optimizer got it as a sparse one."""
    import keras
    import tensorflow as tf

    seen: list[Any] = []

    class Recording(keras.optimizers.SGD):  # type: ignore[misc]
        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            seen.append(isinstance(gradient, tf.IndexedSlices))
            super().update_step(gradient, variable, learning_rate)

    variable = keras.Variable([0.0, 0.0, 0.0])
    optimizer = hvd.DistributedOptimizer(Recording(1.0), **options)
    gradient = tf.IndexedSlices(tf.constant([2.0]), tf.constant([rank]), tf.constant([3]))
    optimizer.apply_gradients([(gradient, variable)])
    return variable.numpy().tolist(), seen[0]


CHECKS = {
    name.removeprefix("check_").replace("_", " "): check
    for name, check in globals().items()
    if name.startswith("check_")
}
# They take little time, and fail where another check does not.
IN_SUITE: tuple[str, ...] = (
    "adapted",
    "adasum",
    "arguments",
    "averaged",
    "backup",
    "broadcast",
    "collectives",
    "compile",
    "continued",
    "groups",
    "local broadcast",
    "names",
    "not finite",
)
IN_SUITE += ("partial tape", "refusals", "tape and optimizer", "elastic", "load model")
