"""The optimizer and its learning rate."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from .config import TrainConfig


class Schedule(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
    """From `first` up to `peak` in `warmup` steps, then down to 0 at `total`, or level."""

    def __init__(self, first: float, peak: float, warmup: int, total: int, decay: str) -> None:
        super().__init__()
        self.first, self.peak, self.decay = first, peak, decay
        self.warmup, self.total = warmup, total

    def __call__(self, step: Any) -> Any:
        """The rate of a step, counted from 0."""
        step = tf.cast(step, tf.float32)
        rising = self.first + (self.peak - self.first) * step / max(1, self.warmup)
        progress = tf.clip_by_value(
            (step - self.warmup) / max(1, self.total - self.warmup), 0.0, 1.0
        )
        return tf.where(step < self.warmup, rising, self.peak * self._left(progress))

    def _left(self, progress: Any) -> Any:
        if self.decay == "cosine":
            return 0.5 * (1.0 + tf.cos(math.pi * progress))
        return 1.0 - progress if self.decay == "linear" else tf.ones_like(progress)

    def get_config(self) -> dict[str, Any]:
        names = ("first", "peak", "warmup", "total", "decay")
        return {name: getattr(self, name) for name in names}


def schedule(config: TrainConfig, *, global_batch: int, steps: int, total: int) -> Schedule:
    """The rate grows with the batch: `learning_rate` is for a batch of `batch_size`."""
    peak = config.learning_rate * global_batch / config.batch_size
    warmup = min(round(config.warmup_epochs * steps), total)
    return Schedule(min(config.learning_rate, peak), peak, warmup, total, config.decay)


def build_optimizer(config: TrainConfig, rate: Schedule) -> Any:
    """The update rule. It gets gradients that are summed over all replicas already."""
    common = {"learning_rate": rate, "global_clipnorm": config.clip_norm or None}
    if config.optimizer == "sgd":
        rule = keras.optimizers.SGD(momentum=0.9, **common)
    else:
        rule = keras.optimizers.Adam(**common)
    # Keras would sum them a second time. We sum first, because clipping needs the whole gradient.
    rule._all_reduce_sum_gradients = list
    if config.precision == "mixed_float16":
        return keras.optimizers.LossScaleOptimizer(rule)
    return rule
