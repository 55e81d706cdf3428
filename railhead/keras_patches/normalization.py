"""A patch of Keras 3's BatchNormalization for strategies with several replicas: a replica without
samples, in the last batch of an epoch, changes nothing, as in Keras 2.

`module` is keras.src.layers.normalization.batch_normalization.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from .patch import Patch, source_has


def skip_empty_parts(module: Any) -> None:
    """No samples have no mean: Keras makes NaN of the moving averages and of the weights."""
    layer = module.BatchNormalization
    compute = layer._moments

    @functools.wraps(compute)
    def _moments(self: Any, inputs: Any, mask: Any) -> Any:
        moments = compute(self, inputs, mask)
        tf = importlib.import_module("tensorflow")
        if self.synchronized or tf.distribute.get_strategy().num_replicas_in_sync == 1:
            return moments
        is_empty = tf.equal(tf.size(inputs), 0)
        return tuple(
            tf.where(is_empty, tf.cast(average, moment.dtype), moment)
            for average, moment in zip(
                (self.moving_mean, self.moving_variance), moments, strict=True
            )
        )

    layer._moments = _moments


NORMALIZATION = (
    Patch(
        "keras.src.layers.normalization.batch_normalization",
        ("multiworker", "mirrored"),
        "",
        "BatchNormalization of a replica without samples keeps its averages",
        skip_empty_parts,
        source_has("BatchNormalization._moments", "size(inputs)", expected=False),
    ),
)
