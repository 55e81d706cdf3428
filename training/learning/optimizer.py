"""The optimizer and its learning rate."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from ..config import OPTIMIZERS, TrainConfig


class Schedule(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
    """From `first` up to `peak` in `warmup` steps, then down to 0 at `total`, or level.

    `scale` is a factor of all of it. The optimizer counts from the step `start` of the training."""

    def __init__(
        self, first: float, peak: float, warmup: int, total: int, decay: str, start: int = 0
    ) -> None:
        super().__init__()
        self.first, self.peak, self.decay = first, peak, decay
        self.warmup, self.total, self.start = warmup, total, start
        self.scale = tf.Variable(1.0, trainable=False)

    def __call__(self, step: Any) -> Any:
        """The rate of the optimizer's step, counted from 0."""
        return self.unscaled(step) * self.scale

    def at(self, step: int) -> float:
        """The rate of a step of the training, counted from 0."""
        return float(self(step - self.start))

    def unscaled_at(self, step: int) -> float:
        """The same without the factor."""
        return float(self.unscaled(step - self.start))

    def unscaled(self, step: Any) -> Any:
        """The rate without the factor."""
        step = tf.cast(step, tf.float32) + self.start
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
        names = ("first", "peak", "warmup", "total", "decay", "start")
        return {name: getattr(self, name) for name in names}


def schedule(
    config: TrainConfig, *, global_batch: int, steps: int, total: int, start: int = 0
) -> Schedule:
    """The rate grows with the batch: `learning_rate` is for a batch of `batch_size`. An optimizer
    that begins at the step `start`, after `unfreeze_epochs`, has `unfreeze_rate` of it."""
    peak = config.learning_rate * global_batch / config.batch_size
    if start:
        peak *= config.unfreeze_rate
    warmup = min(round(config.warmup_epochs * steps), total)
    return Schedule(min(config.learning_rate, peak), peak, warmup, total, config.decay, start)


def build_optimizer(config: TrainConfig, rate: Schedule) -> Any:
    """The update rule. It gets gradients that are summed over all replicas already."""
    options: dict[str, Any] = {"learning_rate": rate, "global_clipnorm": config.clip_norm or None}
    if config.ema:
        options |= {"use_ema": True, "ema_momentum": config.ema}
    if config.weight_decay is not None:
        options["weight_decay"] = config.weight_decay
    if config.optimizer == "sgd":
        options["momentum"] = 0.9
    rule = getattr(keras.optimizers, OPTIMIZERS[config.optimizer])(**options)
    # Keras would sum them a second time. We sum first, because clipping needs the whole gradient.
    rule._all_reduce_sum_gradients = list
    if config.precision == "mixed_float16":
        return keras.optimizers.LossScaleOptimizer(rule)
    return rule
