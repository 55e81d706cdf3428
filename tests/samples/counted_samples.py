"""Counts the samples that Keras 3 sees of every kind of data.

    counted_samples.py ROLE FOLDER [CASE ...]    ROLE: rank, mirrored, alone or names

Writes FOLDER/NAME.json with [samples, sum of their numbers] by case, such as `fit of a generator`.
NAME is the number of the rank, `mirrored` or `alone`. Without CASE: all. NAME `names` has the cases
alone.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from samples.roles import install_patches, strategy_of

BATCH, BATCHES = 8, 6
METHODS = ("fit", "evaluate", "validation_data")
X = np.arange(1, BATCH * BATCHES + 1, dtype="float32")[:, None]  # each sample is its number


def batches() -> Iterator[Any]:
    """A finite generator."""
    for begin in range(0, len(X), BATCH):
        yield X[begin : begin + BATCH], X[begin : begin + BATCH]


def endless() -> Iterator[Any]:
    while True:
        yield from batches()


def ragged() -> Iterator[Any]:
    """Batches whose rows have different lengths."""
    for number, (x, y) in enumerate(batches()):
        yield np.repeat(x, 1 + number % 2, axis=1) / (1 + number % 2), y


def kinds() -> dict[str, tuple[Callable[[], Any], dict[str, int]]]:
    """By kind: what makes the data, and the number of its batches where Keras cannot know it."""
    import keras
    import tensorflow as tf

    class Sequence(keras.utils.PyDataset):  # type: ignore[misc,name-defined]
        def __len__(self) -> int:
            return BATCHES

        def __getitem__(self, index: int) -> Any:
            return X[index * BATCH :][:BATCH], X[index * BATCH :][:BATCH]

    def dataset() -> Any:
        return tf.data.Dataset.from_tensor_slices((X, X)).batch(BATCH)

    def from_generator() -> Any:
        live = batches()  # it gives each batch once
        spec = (tf.TensorSpec((None, 1)), tf.TensorSpec((None, 1)))
        return tf.data.Dataset.from_generator(lambda: live, output_signature=spec)

    return {
        "a generator": (batches, {}),
        "a generator with steps": (batches, {"steps": BATCHES}),
        "an endless generator": (endless, {"steps": BATCHES}),
        "batches of several shapes": (ragged, {}),
        "a sequence": (lambda: Sequence(workers=1), {}),
        "a dataset": (dataset, {}),
        "a dataset of a generator": (from_generator, {}),
    }


def main(role: str, folder: str, *only: str) -> None:
    """Count all cases, and write the counts."""
    if role == "names":
        names = [f"{method} of {kind}" for kind in kinds() for method in METHODS]
        Path(folder, "names.json").write_text(json.dumps(names))
        return
    install_patches(role)
    import keras
    import tensorflow as tf

    # A generator and what waits for it each hold a thread; a small machine has two.
    tf.config.threading.set_inter_op_parallelism_threads(16)
    strategy, name = strategy_of(role)

    class Count(keras.metrics.Metric):  # type: ignore[misc]
        """Samples, or the sum of their numbers."""

        def __init__(self, name: str, numbers: bool) -> None:
            super().__init__(name=name)
            self.numbers, self.total = numbers, self.add_variable((), "zeros")

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            size = tf.cast(tf.shape(y_true)[0], tf.float32)
            self.total.assign_add(tf.reduce_sum(y_true) if self.numbers else size)

        def result(self) -> Any:
            return tf.convert_to_tensor(self.total)

    def model() -> Any:
        with strategy.scope() if strategy else contextlib.nullcontext():
            made = keras.Sequential(
                [keras.layers.Lambda(lambda x: tf.reduce_mean(x, 1, keepdims=True)),
                 keras.layers.Dense(1)]
            )  # fmt: skip
            made.compile("sgd", "mse", metrics=[Count("count", False), Count("sum", True)])
        return made

    counts: dict[str, Any] = {}
    for kind, (make, steps) in kinds().items():
        fit = {"steps_per_epoch": steps["steps"]} if steps else {}
        held_out = {"validation_steps": steps["steps"]} if steps else {}

        def of(logs: Any, prefix: str = "") -> Any:
            return [float(np.ravel(logs[f"{prefix}{key}"])[-1]) for key in ("count", "sum")]

        def validated(make: Any = make, held_out: Any = held_out) -> Any:
            given = {"validation_data": make(), **held_out}
            return of(model().fit(X[:BATCH], X[:BATCH], verbose=0, **given).history, "val_")

        calls: dict[str, Callable[[], Any]] = {
            "fit": lambda make=make, fit=fit: of(model().fit(make(), verbose=0, **fit).history),
            "evaluate": lambda make=make, steps=steps: of(
                model().evaluate(make(), verbose=0, return_dict=True, **steps)
            ),
            "validation_data": validated,
        }
        for method, call in calls.items():
            if only and f"{method} of {kind}" not in only:
                continue
            try:
                counts[f"{method} of {kind}"] = call()
            except Exception as error:
                counts[f"{method} of {kind}"] = f"{type(error).__name__}: {error}"
    Path(folder, f"{name}.json").write_text(json.dumps(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
