"""A table of samples, learned by a training on two replicas, and by Keras' `fit` on one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from samples.trainings import folder_with, own_model, run

from training.data.assignment import shuffled

COUNT, BATCH = 37, 8
CLASSES = 3
LEVEL: dict[str, Any] = dict(
    data="numpy", decay="none", warmup_epochs=0.0, learning_rate=0.05, batch_size=BATCH,
    global_batch=BATCH,
)  # fmt: skip


def table(seed: int, count: int) -> tuple[Any, Any]:
    """Inputs and labels, some of them wrong."""
    generator = np.random.RandomState(seed)
    x = generator.normal(size=(count, 4)).astype(np.float32)
    labels = (x[:, :CLASSES] + generator.normal(size=(count, CLASSES))).argmax(axis=1)
    return x, labels


# The last step of an evaluation has one sample, and a replica without any.
TRAIN, HELD_OUT = table(0, COUNT), table(1, 17)
TABLES = (TRAIN, HELD_OUT)


def factors(count: int) -> Any:
    """What each sample counts in the loss, where a case uses it: the first of all not at all."""
    return (np.arange(count) % 4 / 2).astype(np.float32)


def trained(folder: Path, tables: Any = TABLES, **settings: Any) -> Any:
    """A training of the table on two replicas; `build` makes its model."""
    places = {"train": folder.parent / "train", "validation": folder.parent / "validation"}
    for place, (x, y) in zip(places.values(), tables, strict=True):
        with folder_with(place, x=x, y=y, w=factors(len(x))):
            pass
    with own_model(settings.pop("build", plain)):
        return run(folder, data_folders=places, **{**LEVEL, "mirrored": True, **settings})


def fitted(model: Any, optimizer: Any, loss: Any = None, first: int = 0, **options: Any) -> Any:
    """The history of `fit` with the samples in the order of a training, from the epoch `first`."""
    (x, y), (held_out_x, held_out_y) = map(with_rows, options.pop("tables", TABLES))
    epochs, weighted = options.pop("epochs"), options.pop("weighted", False)

    def batches() -> Iterator[Any]:
        for epoch in range(first, first + epochs):
            order = np.array(list(shuffled(COUNT, epoch=epoch, seed=0)))
            for begin in range(0, COUNT, BATCH):
                rows = order[begin : begin + BATCH]
                yield (x[rows], y[rows], factors(COUNT)[rows])[: 3 if weighted else 2]

    signature = [tf.TensorSpec([None, size]) for size in (x.shape[1], CLASSES)]
    signature += [tf.TensorSpec([None])] if weighted else []
    samples = tf.data.Dataset.from_generator(batches, output_signature=tuple(signature))
    loss = loss or keras.losses.CategoricalCrossentropy(from_logits=True)
    metric = options.pop("metric", "accuracy")
    model.compile(optimizer, loss, metrics=[metric], run_eagerly=True)
    steps = -(-COUNT // BATCH)
    given: dict[str, Any] = dict(epochs=epochs, verbose=0, **options)
    held_out = (held_out_x, held_out_y, factors(len(held_out_x)))
    given["validation_data"] = held_out[: 3 if weighted else 2]
    fit = model.fit(samples, steps_per_epoch=steps, **given)
    return fit.history


def with_rows(samples: Any) -> Any:
    """Labels as rows of 0 and 1."""
    x, y = samples
    return x, np.eye(CLASSES)[y] if y.ndim == 1 else y


def plain(inputs: Any, outputs: int, config: Any) -> Any:
    """The model `linear` without normalization, so that `fit` needs none."""
    return keras.Sequential([layers.Input(inputs.shape), layers.Flatten(), layers.Dense(outputs)])


def linear(start: Any) -> Any:
    model = keras.Sequential([layers.Input((4,)), layers.Flatten(), layers.Dense(CLASSES)])
    model.set_weights(start)
    return model


def assert_history(outcome: Any, history: Any, metric: str = "accuracy") -> None:
    """The same figures in each epoch."""
    for name in ("loss", metric, "val_loss", f"val_{metric}"):
        figures = [epoch[name] for epoch in outcome.epochs]
        np.testing.assert_allclose(figures, history[name], rtol=2e-5, err_msg=name)


def assert_weights(outcome: Any, model: Any) -> None:
    for one, other in zip(outcome.weights, model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
