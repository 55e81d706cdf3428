"""Code that settings name as `module:name`, as a user would write it."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

CALLS: list[str] = []


class Recorder(keras.callbacks.Callback):  # type: ignore[misc]
    """Writes down which hooks are called, and counts epochs."""

    epochs = 0

    def on_train_begin(self, logs: Any = None) -> None:
        self.epochs = 0
        CALLS.append("train begin")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        CALLS.append(f"epoch {epoch} begin")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        CALLS.append(f"batch {batch} end {sorted(logs)}")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epochs += 1
        assert {"loss", "accuracy", "val_loss", "val_accuracy"} <= set(logs)
        CALLS.append(f"epoch {epoch} end, {self.epochs} in all")
        self.model.stop_training = self.epochs == 3

    def on_train_end(self, logs: Any = None) -> None:
        CALLS.append("train end")


def recorder() -> Any:
    return Recorder()


def halving() -> list[Any]:
    def rate_of(epoch: int, rate: float) -> float:
        return rate * 0.5 if epoch else rate

    return [keras.callbacks.LearningRateScheduler(rate_of)]


def noise() -> list[Any]:
    return [keras.layers.GaussianNoise(0.5)]


def tensorboard() -> Any:
    return keras.callbacks.TensorBoard("t")


def no_callback() -> Any:
    return 1


def distance(labels: Any, outputs: Any) -> Any:
    """A metric of each sample: how far the probability of its class is from 1."""
    return 1.0 - keras.ops.take_along_axis(outputs, labels[:, None], axis=1)[:, 0]


class Largest(keras.metrics.Metric):  # type: ignore[misc]
    """A state that is no sum over samples."""

    def __init__(self) -> None:
        super().__init__()
        self.value = self.add_variable((), "zeros")

    def update_state(self, labels: Any, outputs: Any, sample_weight: Any = None) -> None:
        self.value.assign(keras.ops.maximum(self.value, keras.ops.max(outputs)))

    def result(self) -> Any:
        return self.value


def wrong_shape(labels: Any, outputs: Any) -> Any:
    raise ValueError(f"labels {np.shape(labels)}")
