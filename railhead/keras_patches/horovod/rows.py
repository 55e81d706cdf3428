"""The patches for scripts that use Horovod with Keras 3."""

from __future__ import annotations

import types
from collections.abc import Callable

from ..patch import Patch
from . import backups, callbacks, keras_2, layers, optimizer, variables

ISSUE = "horovod/horovod#4290"
VERSION = "0.28.1"  # of Horovod: the only one that the patches were tested with


def uses_keras_3(module: types.ModuleType) -> bool:
    """Whether `tf.keras` is Keras 3, and Horovod has the version that the patches are for."""
    import horovod
    import tensorflow as tf

    return bool(
        horovod.__version__ == VERSION and getattr(tf.keras, "__version__", "2").startswith("3.")
    )


def row(module: str, does: str, apply: Callable[[types.ModuleType], None]) -> Patch:
    """A patch of a module of Horovod."""
    return Patch(module, ("horovod",), ISSUE, does, apply, uses_keras_3)


HOROVOD = (
    row(
        "horovod.tensorflow.functions",
        "hvd.broadcast_variables accepts Keras variables",
        variables.patch_broadcast,
    ),
    row(
        "horovod.tensorflow.sync_batch_norm",
        "hvd.SyncBatchNormalization is a layer of Keras 3",
        layers.patch_sync_batch_norm,
    ),
    row(
        "horovod.tensorflow",
        "Keras 3 has the names of Keras 2 that scripts for Horovod use",
        keras_2.patch_keras,
    ),
    row(
        "horovod.tensorflow",
        "hvd.DistributedGradientTape and groups accept Keras variables",
        variables.patch_horovod,
    ),
    row(
        "horovod.tensorflow",
        "hvd.DistributedOptimizer passes on op and groups",
        optimizer.patch_arguments,
    ),
    row(
        "horovod._keras",
        "hvd.DistributedOptimizer and hvd.load_model use the optimizers of Keras 3",
        optimizer.patch_optimizer,
    ),
    row(
        "horovod._keras.callbacks",
        "the ranks of a host write the files of `BackupAndRestore` in turn",
        backups.write_in_turn,
    ),
    row(
        "horovod._keras.callbacks",
        "the callbacks of learning rates correct the momentum of Keras 3",
        callbacks.patch_learning_rates,
    ),
    row(
        "horovod._keras.callbacks",
        "`MetricAverageCallback` averages before other callbacks use the metrics",
        callbacks.average_first,
    ),
    *(
        row(
            f"horovod.{keras}.callbacks",
            f"the callbacks of horovod.{keras} use Keras 3",
            callbacks.patch_callbacks,
        )
        for keras in ("tensorflow.keras", "keras")
    ),
)
