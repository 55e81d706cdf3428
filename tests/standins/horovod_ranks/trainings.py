"""Trainings that two ranks do with Horovod, and one process without it.

`loop` is a plain loop over batches that has the arithmetic of each option of DistributedOptimizer.
`doubled` is `fit` on batches of twice the size. Both use Keras as it is installed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

RANKS, STEPS, EPOCHS, SIZE = 2, 4, 2, 4  # SIZE: samples in a batch of a rank
Options = Callable[[Any, Any], dict[str, Any]]  # of (hvd, model)


@dataclass(frozen=True)
class Training:
    """One training; `local` are the indices of variables that stay on their rank.

    `together`: how the gradients of the ranks are combined: mean, sum or alone. `doubles`: whether
    one process makes the same model from batches of twice the size.
    """

    model: str = "dense"
    optimizer: str = "momentum"
    options: Options = lambda hvd, model: {}
    compile: dict[str, Any] = field(default_factory=dict)
    together: str = "mean"
    passes: int = 1
    average: bool = False
    local: tuple[int, ...] = ()
    doubles: bool = False
    loops: bool = True
    tolerance: float = 1e-5
    policy: str = "float32"
    scales_loss: bool = False  # DistributedOptimizer gets a LossScaleOptimizer
    in_suite: bool = False


def groups_of_variables(hvd: Any, model: Any) -> dict[str, Any]:
    """The embedding, which is sparse, and a kernel in a group; a bias alone."""
    return {"groups": [model.trainable_variables[:2]]}


def passes(number: int, average: bool) -> Options:
    names = ("backward_passes_per_step", "average_aggregated_gradients")
    return lambda hvd, model: dict(zip(names, (number, average), strict=True))


TRAININGS = {
    "momentum": Training(doubles=True),
    "adam": Training(optimizer="adam", doubles=True),
    "convolution": Training("convolution", "adam", doubles=True),
    "sparse": Training("embedding", doubles=True),
    "sparse adam": Training("embedding", "adam", doubles=True, loops=False),
    "sparse as dense": Training("embedding", "adam", lambda h, m: {"sparse_as_dense": True}),
    "clipped": Training(optimizer="clipped", doubles=True),
    "schedule": Training(optimizer="schedule", doubles=True),
    "weight decay": Training(optimizer="adamw", doubles=True),
    "eager": Training(compile={"run_eagerly": True}, doubles=True),
    "steps per execution": Training(compile={"steps_per_execution": 2}, doubles=True),
    "sum": Training(options=lambda h, m: {"op": h.Sum}, together="sum"),
    "predivide": Training(options=lambda h, m: {"gradient_predivide_factor": 4.0}, doubles=True),
    "fp16": Training(
        options=lambda h, m: {"compression": h.Compression.fp16}, doubles=True, tolerance=2e-3
    ),
    "named, on a device": Training(
        options=lambda h, m: {"name": "n", "device_dense": "/cpu:0", "device_sparse": "/cpu:0"},
        model="embedding",
        doubles=True,
    ),
    "groups": Training("embedding", options=lambda h, m: {"groups": 2}, doubles=True),
    "num_groups": Training(options=lambda h, m: {"num_groups": 1}, doubles=True),
    "a group of two precisions": Training(
        policy="float64",
        options=lambda h, m: {"num_groups": 1},
        doubles=True,
        loops=False,
        in_suite=True,
    ),
    "groups of variables": Training("embedding", options=groups_of_variables, doubles=True),
    "passes": Training(options=passes(2, False), passes=2),
    "passes, averaged": Training(
        optimizer="adam", options=passes(4, True), passes=4, average=True, in_suite=True
    ),
    "sparse passes": Training(
        "embedding",
        options=lambda h, m: {**passes(2, False)(h, m), "sparse_as_dense": True},
        passes=2,
        in_suite=True,
    ),
    "process set": Training(options=lambda h, m: {"process_set": h.FIRST}, together="alone"),
    "local": Training(local=(0, 1)),
    "local, not scaled": Training(
        options=lambda h, m: {"scale_local_gradients": False}, local=(0, 1)
    ),
    "local passes": Training(options=passes(2, True), passes=2, average=True, local=(2,)),
    "mixed precision": Training(policy="mixed_float16", doubles=True, loops=False, tolerance=5e-3),
    "loss scale inside": Training(
        policy="mixed_float16", scales_loss=True, doubles=True, loops=False, tolerance=5e-3
    ),
    "mixed passes": Training(
        policy="mixed_float16", options=passes(2, True), passes=2, average=True, tolerance=5e-3
    ),
}
UNEQUAL = ("process set", "local", "local, not scaled", "local passes")  # the ranks' models differ


def model_of(kind: str, policy: str = "float32") -> Any:
    """A model, the same in each process."""
    import keras
    from keras import layers

    keras.utils.set_random_seed(7)
    with dtype_policy(policy):
        if kind == "embedding":
            first = [keras.Input((5,), dtype="int32"), layers.Embedding(20, 4), layers.Flatten()]
        elif kind == "convolution":
            first = [keras.Input((6, 6, 1)), layers.Conv2D(3, 3), layers.Flatten()]
        else:
            first = [keras.Input((6,)), layers.Dense(8, "tanh")]
        return keras.Sequential([*first, layers.Dense(3, dtype="float32")])


@contextlib.contextmanager
def dtype_policy(policy: str) -> Iterator[None]:
    import keras

    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy("float32")


def optimizer_of(kind: str) -> Any:
    """An optimizer. Adam's epsilon is large: it divides rounding errors by nearly nothing."""
    from keras import optimizers

    if kind == "schedule":
        rates = optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
        return optimizers.SGD(rates, momentum=0.9)
    return {
        "momentum": lambda: optimizers.SGD(0.1, momentum=0.9),
        "adam": lambda: optimizers.Adam(0.05, epsilon=1e-2),
        "adamw": lambda: optimizers.AdamW(0.05, weight_decay=0.1, epsilon=1e-2),
        "clipped": lambda: optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.3),
    }[kind]()


def data_of(kind: str) -> tuple[Any, Any]:
    """Inputs and targets of all ranks: (step, rank, sample, ...)."""
    random = np.random.default_rng(3)
    shape = (STEPS, RANKS, SIZE)
    if kind == "embedding":
        inputs: Any = random.integers(0, 20, (*shape, 5)).astype("int32")
    else:
        features = (6, 6, 1) if kind == "convolution" else (6,)
        inputs = random.normal(size=(*shape, *features)).astype("float32")
    return inputs, random.normal(size=(*shape, 3)).astype("float32")


def of_rank(data: Any, rank: int) -> Any:
    """The samples of one rank, one batch after the other."""
    return data[:, rank].reshape(STEPS * SIZE, *data.shape[3:])


def weights_of(model: Any) -> list[Any]:
    return [np.array(variable) for variable in model.trainable_variables]


def doubled(training: Training) -> tuple[list[Any], list[float]]:
    """The weights, and the loss of each epoch, of `fit` in one process."""
    import keras

    inputs, targets = data_of(training.model)
    model = model_of(training.model, training.policy)
    optimizer = optimizer_of(training.optimizer)
    if training.scales_loss:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=256.0)
    model.compile(optimizer, "mse", **training.compile)
    rows = STEPS * RANKS * SIZE
    arrays = [array.reshape(rows, *array.shape[3:]) for array in (inputs, targets)]
    history = model.fit(*arrays, batch_size=RANKS * SIZE, epochs=EPOCHS, shuffle=False, verbose=0)
    return weights_of(model), list(history.history["loss"])


def loop(training: Training) -> list[list[Any]]:
    """The weights of each rank, from a plain loop in one process."""
    inputs, targets = data_of(training.model)
    models = [model_of(training.model) for _ in range(RANKS)]
    optimizers = [optimizer_of(training.optimizer) for _ in range(RANKS)]
    sums: list[list[Any]] = [[0.0] * len(weights_of(model)) for model in models]
    for step in range(STEPS * EPOCHS):
        for rank, model in enumerate(models):
            batch = inputs[step % STEPS, rank], targets[step % STEPS, rank]
            slopes = gradients(model, *batch)
            sums[rank] = [total + slope for total, slope in zip(sums[rank], slopes, strict=True)]
        if (step + 1) % training.passes:
            for optimizer in optimizers:
                optimizer.iterations.assign_add(1)
            continue
        for rank, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            optimizer.apply(combined(training, sums, rank), model.trainable_variables)
        sums = [[0.0] * len(total) for total in sums]
    return [weights_of(model) for model in models]


def gradients(model: Any, inputs: Any, targets: Any) -> list[Any]:
    """Dense gradients of the mean squared error."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(inputs, training=True) - targets))
    slopes = tape.gradient(loss, model.trainable_variables)
    return [tf.convert_to_tensor(gradient).numpy() for gradient in slopes]


def combined(training: Training, sums: Sequence[Sequence[Any]], rank: int) -> list[Any]:
    """What a rank applies, from the sums of all ranks' batches."""
    import tensorflow as tf

    divisor = {"mean": RANKS, "sum": 1}.get(training.together, 1)
    results = []
    for index in range(len(sums[0])):
        if training.together == "alone":
            value = sums[rank][index]
        elif index in training.local:
            scales = training.options(Constants, None).get("scale_local_gradients", True)
            value = sums[rank][index] / (RANKS if scales else 1)
        else:
            value = sum(each[index] for each in sums) / divisor
        results.append(tf.constant(value / (training.passes if training.average else 1)))
    return results


class Constants:
    """In place of hvd, to read a training's options without it."""

    Sum = FIRST = None


def distributed(training: Training, hvd: Any, rank: int) -> tuple[list[Any], list[float]]:
    """The weights and the losses of one rank."""
    import keras

    inputs, targets = data_of(training.model)
    model = model_of(training.model, training.policy)
    optimizer = optimizer_of(training.optimizer)
    if training.scales_loss:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=256.0)
    optimizer = hvd.DistributedOptimizer(optimizer, **training.options(hvd, model))
    for index in training.local:
        optimizer.register_local_var(model.trainable_variables[index])
    model.compile(optimizer, "mse", **training.compile)
    averaging = [hvd.callbacks.MetricAverageCallback()]
    history = model.fit(
        of_rank(inputs, rank),
        of_rank(targets, rank),
        batch_size=SIZE,
        epochs=EPOCHS,
        shuffle=False,
        verbose=0,
        callbacks=averaging,
    )
    return weights_of(model), [float(loss) for loss in history.history["loss"]]


def difference(weights: Sequence[Any], expected: Sequence[Any]) -> float:
    """The largest difference of two lists of arrays."""
    pairs = zip(weights, expected, strict=True)
    return max(float(np.max(np.abs(np.asarray(a) - np.asarray(b)))) for a, b in pairs)
