"""What is watched in each step for values that are not finite: loss, moving averages, gradients.

A sum over a tensor is not finite if one of its values is not. It reads the tensor once, on the
device that has it, and the result travels with the sums of the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ..results import TrainingError
from ..variables import moving, tensors_of

LOSS = "the loss of step {step}"


class Watch:
    """The values of a replica's step that must stay finite."""

    def __init__(self, model: Any, optimizer: Any) -> None:
        self.optimizer = optimizer
        # In float16 gradients may overflow: the optimizer leaves such a step out and scales less.
        self.scaled = hasattr(optimizer, "dynamic_scale")
        # A constant may be infinite, such as a mask.
        self.state = [v for v in moving(model) if np.isfinite(v.value.numpy()).all()]
        self.texts = tuple(self._texts(model.trainable_variables))

    def faults(self, loss: Any, gradients: Sequence[Any]) -> Any:
        """In a replica's step: float32 [texts], 1 for each value that is not finite."""
        values = [loss, *map(_sum, tensors_of(self.state))]
        if self.scaled:
            scale = self.optimizer.dynamic_scale.value
            values.append(tf.where(scale >= 1.0, scale, float("inf")))
        else:
            values.extend(map(_sum, gradients))
        return tf.where(tf.math.is_finite(tf.stack(values)), 0.0, 1.0)

    def _texts(self, trainable: Sequence[Any]) -> Iterator[str]:
        """A description of each value; `{step}` stands for the number of the step."""
        yield LOSS
        for variable in self.state:
            yield f"{variable.path} after step {{step}}"
        if self.scaled:
            yield "the gradient of step {step} without a scale of the loss"
            return
        for variable in trainable:
            yield f"the gradient of {variable.path} in step {{step}}"


def check_finite(faults: Any, texts: Sequence[str], ranks: Sequence[int], advice: str) -> None:
    """Stop if a value of a step is not finite; every rank has the same `faults`.

    Raises:
        TrainingError: it names the value and the `ranks`.
    """
    bad = np.flatnonzero(faults)
    if not len(bad):
        return
    # If the loss is not finite, no gradient is: it is enough to name the loss.
    more = f" (and {len(bad) - 1} more)" if bad[0] and len(bad) > 1 else ""
    raise TrainingError(
        f"{texts[bad[0]]}{more} is not a number on rank {', '.join(map(str, ranks))}: {advice}"
    )


def _sum(tensor: Any) -> Any:
    return tf.reduce_sum(tf.cast(tensor, tf.float32))
