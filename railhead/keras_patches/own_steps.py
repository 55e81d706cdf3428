"""A patch of Keras 3's trainer for strategies with several replicas: a script's own `train_step`
reports the whole loss.

`trainer` is the module keras.src.backend.tensorflow.trainer.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections import deque
from typing import Any

from .names import not_converted
from .patch import Patch, source_has

TRAINER = "keras.src.backend.tensorflow.trainer"
METRICS = "keras.src.metrics.reduction_metrics"


class _Losses(threading.local):
    """What `compute_loss` returned last in this thread, which is that of a replica."""

    def __init__(self) -> None:
        self.last: deque[Any] = deque(maxlen=16)  # a step may have several models


def whole_losses(trainer: Any) -> None:
    """The loss of `compute_loss` is divided by the number of replicas, whose gradients are summed.
    It is whole where a script reports it: as a result of a step, and in `Mean.update_state`, as
    the guides of Keras do."""
    trainer_class, losses = trainer.TensorFlowTrainer, _Losses()
    mean = importlib.import_module(METRICS).Mean
    compute, make = trainer_class.compute_loss, trainer_class._make_function
    update = mean.update_state

    def whole(value: Any) -> Any:
        if any(value is loss for loss in losses.last):
            return trainer.loss_module.unscale_loss_for_distribution(value)
        return value

    @functools.wraps(compute)
    def compute_loss(self: Any, *args: Any, **options: Any) -> Any:
        loss = compute(self, *args, **options)
        losses.last.append(loss)
        return loss

    @functools.wraps(make)
    def _make_function(self: Any, step_function: Any) -> Any:
        @functools.wraps(step_function)
        def step(data: Any) -> Any:
            return trainer.tree.map_structure(whole, step_function(data))

        is_alone = self.distribute_strategy.num_replicas_in_sync == 1
        return make(self, step_function if is_alone else step)

    @not_converted
    @functools.wraps(update)
    def update_state(self: Any, values: Any, *args: Any, **options: Any) -> Any:
        return update(self, whole(values), *args, **options)

    trainer_class.compute_loss, trainer_class._make_function = compute_loss, _make_function
    mean.update_state = update_state


OWN_STEPS = (
    Patch(
        TRAINER,
        ("multiworker", "mirrored"),
        "",
        "your own `train_step` reports `compute_loss` whole",
        whole_losses,
        source_has("TensorFlowTrainer.train_step", "unscale_loss_for_distribution(loss)"),
    ),
)
