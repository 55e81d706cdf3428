"""Patches of Keras 3's losses for strategies with several replicas: a loss that returns one number
is a mean over the replicas, as in Keras 2, and the losses of single samples are reported as they
are.
"""

from __future__ import annotations

import functools
import importlib
import threading
from typing import Any

from .patch import Patch, source_has

LOSS = "keras.src.losses.loss"
COMPILED = "keras.src.trainers.compile_utils"  # has imported LOSS as `loss_module`
# Of the losses: these divide the sum over a replica's samples by their number or weights.
MEANS = ("sum_over_batch_size", "mean", "mean_with_sample_weight")


class _Depth(threading.local):
    """Whether this thread, of one replica, computes the loss of `compile`, and inside how many of
    its losses it is."""

    compiled = False
    losses = 0


def divide_once(module: Any) -> None:
    """A mean is divided by the number of replicas, whose gradients are summed: once, by the
    outermost loss. Keras leaves out a loss that returns one number, such as a function with
    `tf.reduce_mean`, and divides the losses that such a function calls."""
    losses, depth = module.loss_module, _Depth()
    divide, compute = losses.scale_loss_for_distribution, losses.Loss.__call__
    compute_compiled = module.CompileLoss.call

    def scale_loss_for_distribution(value: Any) -> Any:
        return value if depth.losses else divide(value)

    @functools.wraps(compute)
    def __call__(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        if not depth.compiled:
            return compute(self, y_true, y_pred, sample_weight)
        depth.losses += 1
        try:
            loss = compute(self, y_true, y_pred, sample_weight)
        finally:
            depth.losses -= 1
        if self.reduction not in MEANS or depth.losses:
            return loss
        return divide(zero_without_samples(loss, y_pred))

    @functools.wraps(compute_compiled)
    def call(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        depth.compiled = True
        try:
            return compute_compiled(self, y_true, y_pred, sample_weight)
        finally:
            depth.compiled = False

    losses.scale_loss_for_distribution = scale_loss_for_distribution
    losses.Loss.__call__, module.CompileLoss.call = __call__, call


def zero_without_samples(loss: Any, outputs: Any) -> Any:
    """The loss of a replica; of one without samples, in the last batch of an epoch, 0 in place of
    the mean of nothing."""
    tf = importlib.import_module("tensorflow")
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return loss
    return tf.where(tf.equal(tf.size(outputs), 0), tf.zeros_like(loss), loss)


def leave_losses_of_samples(module: Any) -> None:
    """The losses of samples, of `reduction="none"`, are not multiplied by the number of replicas:
    only a mean over them was divided by it."""
    multiply = module.unscale_loss_for_distribution

    @functools.wraps(multiply)
    def unscale_loss_for_distribution(value: Any) -> Any:
        return value if value.shape.rank else multiply(value)

    module.unscale_loss_for_distribution = unscale_loss_for_distribution


LOSSES = (
    Patch(
        LOSS,
        ("multiworker", "mirrored"),
        "",
        '`reduction="none"`: the reported loss is a mean',
        leave_losses_of_samples,
        source_has("unscale_loss_for_distribution", "ops.cast(num_replicas, value.dtype)"),
    ),
    Patch(
        COMPILED,
        ("multiworker", "mirrored"),
        "",
        "a loss of `compile` that returns one number is averaged over the replicas",
        divide_once,
        source_has(
            "loss_module.reduce_values", "tuple(values.shape) == ()", "scale_loss_for_distribution"
        ),
    ),
)
