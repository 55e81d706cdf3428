"""Horovod's layer for batch normalization over all ranks, as a layer of Keras 3."""

from __future__ import annotations

import types
from typing import Any


def patch_sync_batch_norm(module: types.ModuleType) -> None:
    """horovod.tensorflow.sync_batch_norm: replace its layer, which is written for Keras 2."""
    import keras

    base: Any = keras.layers.BatchNormalization

    def __init__(self: Any, fused: bool = False, **options: Any) -> None:
        if fused in (True, None):
            raise ValueError("SyncBatchNormalization does not support fused=True.")
        base.__init__(self, **{"name": "sync_batch_normalization", **options})

    def _moments(self: Any, inputs: Any, mask: Any) -> tuple[Any, Any]:
        moments = base._moments(self, inputs, mask)
        return moments if module.size() == 1 else over_ranks(module, *moments)

    module.SyncBatchNormalization = type(  # type: ignore[attr-defined]
        "SyncBatchNormalization",
        (base,),
        {
            "__init__": __init__,
            "_moments": _moments,
            "__module__": module.__name__,
            "__doc__": "Batch normalization with the mean and the variance of all ranks' batches.",
        },
    )


def over_ranks(module: Any, mean: Any, variance: Any) -> tuple[Any, Any]:
    """The mean and the variance of the batches of all ranks, which have the same size."""
    import tensorflow as tf

    moments = tf.stack([mean, variance + tf.square(mean)])  # E[x] and E[x^2]
    mean, mean_of_square = tf.unstack(module._allreduce(moments, op=module.Sum) / module.size())
    return mean, mean_of_square - tf.square(mean)
