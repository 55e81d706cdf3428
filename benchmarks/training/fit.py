"""The loop against Keras `fit`: same model, batch and process. Limit: as fast, within noise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from benchmarks.training.loop import (
    CASES,
    Case,
    Stopwatch,
    Taken,
    compare,
    epoch,
    images,
    settings,
    training_of,
)
from training.data import Inputs
from training.models.build import build_model

LIMIT = 0.95  # 1.0 within the noise of a shared machine


class Clock(keras.callbacks.Callback):  # type: ignore[misc]
    """The seconds of an epoch, without the start and the end of `fit`."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.watch = Stopwatch()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epoch = self.watch.taken()


def keras_epoch(case: Case, data: dict[str, Path], xla: str) -> Callable[[], Taken]:
    """A function that trains one epoch with `fit`, on arrays in memory."""
    config = settings(case)
    stored = np.load(data["train"] / "images.npz")
    x, y = stored["x"].astype(np.float32) / 255, stored["y"]
    model = build_model(Inputs(x.shape[1:]), 10, config)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(config.learning_rate)
    model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=xla == "on")
    clock = Clock()

    def train() -> Taken:
        model.fit(x, y, batch_size=case.batch, epochs=1, verbose=0, callbacks=[clock])
        return clock.epoch

    return train


def run(model: str, xla: str, rounds: int, folder: Path) -> bool:
    """Measure and print; whether the limit is kept."""
    case = CASES[model]
    data = images(case, folder)
    training = training_of(settings(case, xla=xla), data, folder / "results")
    print("first: Keras fit, second: training")
    ratio = compare(keras_epoch(case, data, xla), epoch(training), rounds, case.samples)
    print(f"{model}, batch {case.batch}, XLA {xla}: training / fit {ratio:.2f}, limit {LIMIT}")
    return ratio >= LIMIT
