"""Patches of Keras 3's optimizers for strategies with several replicas: gradients are summed over
the replicas before any other step, as in Keras 2.

`module` is keras.src.backend.tensorflow.optimizer, which has imported TensorFlow as `tf`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .patch import Patch, source_has

OPTIMIZER = "keras.src.backend.tensorflow.optimizer"
STRATEGIES = ("multiworker", "mirrored")
SUMS = "self._all_reduce_sum_gradients(grads_and_vars)"


def sum_first(module: Any) -> None:
    """Clipping, accumulation and the update see the gradients of the whole batch."""
    tf, optimizer = module.tf, module.TFOptimizer
    apply = optimizer._backend_apply_gradients

    @functools.wraps(apply)
    def _backend_apply_gradients(self: Any, grads: Any, trainable_variables: Any) -> None:
        pairs = self._all_reduce_sum_gradients(zip(grads, trainable_variables, strict=True))
        summed = [gradient for gradient, _ in pairs]
        if needs_merge_call(tf):
            apply_together(tf, self, summed, trainable_variables)
        else:
            apply(self, summed, trainable_variables)

    def _backend_update_step(self: Any, grads: Any, trainable_variables: Any, rate: Any) -> None:
        """The update without the sum."""
        values = [getattr(variable, "value", variable) for variable in trainable_variables]
        tf.__internal__.distribute.interim.maybe_merge_call(
            self._distributed_tf_update_step,
            self._distribution_strategy,
            list(zip(grads, values, strict=True)),
            rate,
        )

    optimizer._backend_apply_gradients = _backend_apply_gradients
    optimizer._backend_update_step = _backend_update_step


def needs_merge_call(tf: Any) -> bool:
    """Whether this is one of several replicas that synchronise before each change of a variable,
    which they cannot do in a branch of `tf.cond`."""
    context = tf.distribute.get_replica_context()
    several = context is not None and context.num_replicas_in_sync > 1
    return several and not tf.__internal__.distribute.strategy_supports_no_merge_call()


def apply_together(tf: Any, optimizer: Any, grads: Any, variables: Any) -> None:
    """What the optimizer does with summed gradients, without a branch in a replica: all replicas
    decide together, as in LossScaleOptimizer."""
    together = tf.distribute.get_replica_context().merge_call

    def update(grads: Any) -> None:
        clipped = optimizer._clip_gradients(grads)
        optimizer._apply_weight_decay(variables)
        optimizer._backend_update_step(clipped, variables, optimizer.learning_rate)

    def overwrite(strategy: Any) -> None:
        is_due = tf.equal((optimizer.iterations + 1) % optimizer.ema_overwrite_frequency, 0)

        def write() -> None:
            optimizer._overwrite_model_variables_with_average_value(optimizer._trainable_variables)

        tf.cond(is_due, write, lambda: None)

    if optimizer.gradient_accumulation_steps:
        together(accumulated(tf, optimizer, variables, update), args=(grads,))
    else:
        update(grads)
    if optimizer.use_ema:
        optimizer._update_model_variables_moving_average(optimizer._trainable_variables)
        if optimizer.ema_overwrite_frequency:
            together(overwrite)


def accumulated(
    tf: Any, optimizer: Any, variables: Any, update: Callable[[Any], None]
) -> Callable[[Any, Any], None]:
    """What all replicas do in a step with `gradient_accumulation_steps`."""
    steps = optimizer.gradient_accumulation_steps
    sums = [
        optimizer._accumulated_gradients[optimizer._get_variable_index(variable)]
        for variable in variables
    ]

    def update_with_mean(grads: Any) -> None:
        update([(g + so_far) / steps for g, so_far in zip(grads, sums, strict=True)])

    def decide(strategy: Any, grads: Any) -> None:
        def update_and_reset() -> None:
            strategy.extended.call_for_each_replica(update_with_mean, args=(grads,))
            optimizer._backend_reset_gradient_accumulators()

        def add() -> None:
            for so_far, gradient in zip(sums, grads, strict=True):
                strategy.extended.update(so_far.value, added, args=(gradient,), group=False)

        is_last = tf.equal((optimizer._iterations.value + 1) % steps, 0)
        tf.cond(is_last, update_and_reset, add)

    return decide


def added(variable: Any, gradient: Any) -> Any:
    """Add to a variable."""
    return variable.assign(variable + gradient)


GRADIENTS = (
    Patch(
        OPTIMIZER,
        STRATEGIES,
        "",
        "gradients are summed over the replicas before they are clipped or accumulated",
        sum_first,
        source_has("TFOptimizer._backend_update_step", SUMS),
    ),
)
