"""Names of Keras 2 that scripts use with every strategy, in Keras 3."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .patch import Patch

METRIC = "keras.src.metrics.metric"
OPTIMIZER = "keras.src.optimizers.base_optimizer"
STRATEGIES = ("multiworker", "parameter-server")  # Horovod's own patch does the same


def not_converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that a script's `tf.function` calls: AutoGraph leaves it as it is. It would
    search for the source, which is in the archive of the host's programs."""
    function.autograph_info__ = {}  # type: ignore[attr-defined]
    return function


def patch_metric(module: Any) -> None:
    """`metric.reset_states()`."""
    module.Metric.reset_states = not_converted(lambda self: self.reset_state())


def patch_optimizer(module: Any) -> None:
    """`optimizer.lr`, and the argument `lr` of optimizers."""
    optimizer = module.BaseOptimizer
    optimizer.lr = property(rate, lambda self, value: setattr(self, "learning_rate", value))
    optimizer.__init__ = with_lr(optimizer.__init__)


def with_lr(init: Callable[..., None]) -> Callable[..., None]:
    """`BaseOptimizer.__init__` that accepts `lr`: all optimizers pass unknown arguments on to
    it."""

    @functools.wraps(init)
    def __init__(self: Any, learning_rate: Any, *args: Any, **options: Any) -> None:
        init(self, options.pop("lr", learning_rate), *args, **options)

    return __init__


def rate(optimizer: Any) -> Any:
    """The learning rate as Keras 2 has it: a `tf.Variable`, or the value of a schedule."""
    learning_rate = optimizer.learning_rate
    return getattr(learning_rate, "_value", learning_rate)


NAMES = (
    Patch(
        METRIC,
        STRATEGIES,
        "",
        "`metric.reset_states()` of Keras 2 works",
        patch_metric,
        lambda module: not hasattr(module.Metric, "reset_states"),
    ),
    Patch(
        OPTIMIZER,
        STRATEGIES,
        "",
        "`optimizer.lr` and `lr=` of Keras 2's optimizers work",
        patch_optimizer,
        lambda module: not hasattr(module.BaseOptimizer, "lr"),
    ),
)
